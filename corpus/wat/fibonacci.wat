(module
  (import "io" "print_i64" (func $print_i64 (param i64)))
  (import "io" "newline" (func $newline))

  (func $fib (param $n i32) (result i64)
    (local $a i64) (local $b i64) (local $t i64)
    (local.set $b (i64.const 1))
    (block $done
      (loop $next
        (br_if $done (i32.eqz (local.get $n)))
        (local.set $t (i64.add (local.get $a) (local.get $b)))
        (local.set $a (local.get $b))
        (local.set $b (local.get $t))
        (local.set $n (i32.sub (local.get $n) (i32.const 1)))
        (br $next)))
    (local.get $a))

  (func (export "main")
    (local $i i32)
    (loop $again
      (call $print_i64 (call $fib (local.get $i)))
      (call $newline)
      (local.set $i (i32.add (local.get $i) (i32.const 10)))
      (br_if $again (i32.le_s (local.get $i) (i32.const 90))))))
