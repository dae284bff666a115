;; Conway's life on a 16x8 torus: the field is at 0, the next one at 256.
(func $cell (param $x i32) (param $y i32) (result i32)
  (i32.load8_u (i32.add (i32.mul (i32.and $y 7) 16) (i32.and $x 15))))

(func $neighbours (param $x i32) (param $y i32) (result i32)
  (set $n 0)
  (for $dy -1 2
    (for $dx -1 2
      (if (i32.or $dx $dy)
        (then (set $n (i32.add $n (call $cell (i32.add $x $dx) (i32.add $y $dy))))))))
  $n)

(func $show
  (for $y 0 8
    (for $x 0 16 (call $io.print (select "#" "." (call $cell $x $y))))
    (call $io.newline)))

(func $main
  ;; a glider
  (i32.store8 1 1) (i32.store8 18 1) (i32.store8 32 1) (i32.store8 33 1) (i32.store8 34 1)
  (for $g 0 20
    (for $y 0 8
      (for $x 0 16
        (set $n (call $neighbours $x $y))
        (i32.store8 (i32.add 256 (i32.add (i32.mul $y 16) $x))
          (i32.or (i32.eq $n 3) (i32.and (i32.eq $n 2) (call $cell $x $y))))))
    (memory.copy 0 256 128))
  (call $show))
