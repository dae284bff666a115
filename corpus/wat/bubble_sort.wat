(module
  (memory (export "memory") 1)
  (data (i32.const 0) "\2a\00\00\00\07\00\00\00\ff\ff\ff\ff\64\00\00\00\00\00\00\00\13\00\00\00\f6\ff\ff\ff\63\00\00\00")
  (func $sort (param $base i32) (param $n i32)
    (local $i i32) (local $j i32) (local $a i32) (local $b i32) (local $p i32)
    (local.set $i (local.get $n))
    (loop $outer
      (local.set $i (i32.sub (local.get $i) (i32.const 1)))
      (local.set $j (i32.const 0))
      (block $inner_done
        (loop $inner
          (br_if $inner_done (i32.ge_s (local.get $j) (local.get $i)))
          (local.set $p (i32.add (local.get $base) (i32.shl (local.get $j) (i32.const 2))))
          (local.set $a (i32.load (local.get $p)))
          (local.set $b (i32.load offset=4 (local.get $p)))
          (if (i32.gt_s (local.get $a) (local.get $b))
            (then
              (i32.store (local.get $p) (local.get $b))
              (i32.store offset=4 (local.get $p) (local.get $a))))
          (local.set $j (i32.add (local.get $j) (i32.const 1)))
          (br $inner)))
      (br_if $outer (i32.gt_s (local.get $i) (i32.const 1)))))
  (func $main (export "main")
    (local $i i32)
    (call $sort (i32.const 0) (i32.const 8))
    (loop $print
      (call $io.print_i32 (i32.load (i32.shl (local.get $i) (i32.const 2))))
      (call $io.print (string " "))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $print (i32.lt_s (local.get $i) (i32.const 8))))
    (call $io.newline)))
