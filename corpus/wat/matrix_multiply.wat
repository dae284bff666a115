;; Two 3x3 matrices of f64 at 0 and 72; their product goes to 144.
(func $at (param $base i32) (param $row i32) (param $column i32) (result i32)
  (i32.add $base (i32.mul 8 (i32.add (i32.mul $row 3) $column))))

(func $main
  (for $i 0 3
    (for $j 0 3
      (f64.store (call $at 0 $i $j) (f64.convert_i32_s (i32.add (i32.mul $i 3) (i32.add $j 1))))
      (f64.store (call $at 72 $i $j) (select 2.0 0.5 (i32.eq $i $j)))))
  (for $i 0 3
    (for $j 0 3
      (set $sum 0.0)
      (for $k 0 3
        (set $sum (f64.add $sum (f64.mul (f64.load (call $at 0 $i $k)) (f64.load (call $at 72 $k $j))))))
      (f64.store (call $at 144 $i $j) $sum)))
  (for $i 0 3
    (for $j 0 3
      (call $io.print (call $str.pad_left (call $str.fixed (f64.load (call $at 144 $i $j)) 1) 7)))
    (call $io.newline)))
