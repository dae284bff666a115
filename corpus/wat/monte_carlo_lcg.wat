;; Estimates pi with a generator of its own, so that every run gives the same.
(module
  (global $seed (mut i32) (i32.const 12345))
  (func $next (result f64)
    (global.set $seed (i32.add (i32.mul (global.get $seed) (i32.const 1664525)) (i32.const 1013904223)))
    (f64.div (f64.convert_i32_u (global.get $seed)) (f64.const 4294967296)))
  (func $main (export "main")
    (local $i i32) (local $inside i32) (local $x f64) (local $y f64)
    (loop $again
      (local.set $x (call $next))
      (local.set $y (call $next))
      (if (f64.le (f64.add (f64.mul (local.get $x) (local.get $x)) (f64.mul (local.get $y) (local.get $y))) (f64.const 1))
        (then (local.set $inside (i32.add (local.get $inside) (i32.const 1)))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $again (i32.lt_u (local.get $i) (i32.const 200000))))
    (call $io.print (string "pi is about "))
    (call $io.print_f64 (f64.div (f64.mul (f64.const 4) (f64.convert_i32_u (local.get $inside))) (f64.const 200000)))
    (call $io.newline)))
