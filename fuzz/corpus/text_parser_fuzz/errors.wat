(module (@a b) (func $f (foo) (local.get $x) (i32.const 99999999999) (i32.add 1 2) (local i32)) (fnuc) (func $f (br $q)) (; c ;) ;; d
)
