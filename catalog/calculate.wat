;; name: calculate
;; does: Works out an expression of decimal numbers with + - * / and parentheses.
;; arguments: expression
;; result: the value, f64, and on stdout
;; example: calculate "2 * (3 + 4.5) - 1"
;;
(global $text (mut i32) 0)
(global $at (mut i32) 0)

;; The next byte that is not a space; -1 at the end.
(func $peek (result i32)
  (while (i32.eq (call $str.byte $text $at) (char " ")) (inc $at))
  (call $str.byte $text $at))

(func $fail
  (call $io.eprint (concat "not understood from here on: " (call $str.slice $text $at 1000000) "\n"))
  (unreachable))

(func $is_digit (param $c i32) (result i32)
  (i32.or (i32.le_u (i32.sub $c (char "0")) 9) (i32.eq $c (char "."))))

(func $number (result f64)
  (set $start $at)
  (while (call $is_digit (call $str.byte $text $at)) (inc $at))
  (set $value $errno (call $str.to_f64 (call $str.slice $text $start $at)))
  (if $errno (then (set $at $start) (call $fail)))
  $value)

(func $factor (result f64)
  (set $c (call $peek))
  (if (i32.eq $c (char "-")) (then (inc $at) (return (f64.neg (call $factor)))))
  (if (i32.ne $c (char "(")) (then (return (call $number))))
  (inc $at)
  (set $value (call $sum))
  (if (i32.ne (call $peek) (char ")")) (then (call $fail)))
  (inc $at)
  $value)

(func $product (result f64)
  (set $value (call $factor))
  (while 1
    (set $c (call $peek))
    (if (i32.eq $c (char "*"))
      (then (inc $at) (set $value (f64.mul $value (call $factor))))
      (else
        (if (i32.ne $c (char "/")) (then (break)))
        (inc $at)
        (set $value (f64.div $value (call $factor))))))
  $value)

(func $sum (result f64)
  (set $value (call $product))
  (while 1
    (set $c (call $peek))
    (if (i32.eq $c (char "+"))
      (then (inc $at) (inc $value (call $product)))
      (else
        (if (i32.ne $c (char "-")) (then (break)))
        (inc $at)
        (dec $value (call $product)))))
  $value)

(func $main (export "main") (result f64)
  (set $text (call $io.argument! 0))
  (set $value (call $sum))
  (if (i32.ge_s (call $peek) 0) (then (call $fail)))
  (call $io.println (call $str.from_f64 $value))
  $value)
