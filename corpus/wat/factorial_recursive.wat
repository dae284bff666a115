(func $factorial (param $n i64) (result i64)
  (if (result i64) (i64.le_s (local.get $n) (i64.const 1))
    (then (i64.const 1))
    (else (i64.mul (local.get $n) (call $factorial (i64.sub (local.get $n) (i64.const 1)))))))

(func $main (export "main") (result i64)
  (for $i 1 16
    (call $io.print_i32 $i)
    (call $io.print "! = ")
    (call $io.print_i64 (call $factorial (i64.extend_i32_s $i)))
    (call $io.newline))
  (call $factorial (i64.const 20)))
