(func $rotate (param $c i32) (param $first i32) (param $by i32) (result i32)
  (i32.add $first (i32.rem_u (i32.add (i32.sub $c $first) $by) 26)))

(func $main
  (set $by (call $str.to_i32! (call $io.argument! 0)))
  (set $text (call $io.input))
  (set $end (i32.add (i32.add $text 4) (i32.load $text)))
  (for $p (i32.add $text 4) $end
    (set $c (i32.load8_u $p))
    (if (i32.and (i32.ge_u $c (char "a")) (i32.le_u $c (char "z")))
      (then (i32.store8 $p (call $rotate $c (char "a") $by))))
    (if (i32.and (i32.ge_u $c (char "A")) (i32.le_u $c (char "Z")))
      (then (i32.store8 $p (call $rotate $c (char "A") $by)))))
  (call $io.print $text))
