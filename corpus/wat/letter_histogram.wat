(module
  (memory (export "memory") 1)
  (func $main (export "main")
    (local $text i32) (local $end i32) (local $c i32) (local $i i32)
    (local.set $text (call $str.lower (call $io.input)))
    (local.set $end (i32.add (i32.add (local.get $text) (i32.const 4)) (i32.load (local.get $text))))
    (local.set $text (i32.add (local.get $text) (i32.const 4)))
    (block $counted
      (loop $count
        (br_if $counted (i32.ge_u (local.get $text) (local.get $end)))
        (local.set $c (i32.sub (i32.load8_u (local.get $text)) (i32.const 97)))
        (if (i32.lt_u (local.get $c) (i32.const 26))
          (then
            (i32.store (i32.shl (local.get $c) (i32.const 2))
              (i32.add (i32.load (i32.shl (local.get $c) (i32.const 2))) (i32.const 1)))))
        (local.set $text (i32.add (local.get $text) (i32.const 1)))
        (br $count)))
    (loop $print
      (if (i32.load (i32.shl (local.get $i) (i32.const 2)))
        (then
          (call $io.print (call $str.from_char (i32.add (local.get $i) (i32.const 97))))
          (call $io.print (string " "))
          (call $io.println (call $str.repeat (string "#") (i32.load (i32.shl (local.get $i) (i32.const 2)))))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $print (i32.lt_u (local.get $i) (i32.const 26))))))
