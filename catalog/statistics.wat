;; name: statistics
;; does: Says how many numbers the input has, one on each line, and their sum, mean, least and greatest. Other lines are passed over.
;; input: numbers, one on each line
;; result: a JSON object on stdout: count, sum, mean, min, max; only the count when there is none
;; example: statistics, with the input "1\n2\n6"
;;
(func $main
  (set $text (call $io.input))
  (set $count 0)
  (set $sum 0.0)
  (set $min inf)
  (set $max -inf)
  (for $i 0 (call $str.line_count $text)
    (set $value $errno (call $str.to_f64 (call $str.line! $text $i)))
    (if $errno (then (continue)))
    (inc $count)
    (inc $sum $value)
    (set $min (f64.min $min $value))
    (set $max (f64.max $max $value)))
  (call $io.print (concat "{\"count\":" (call $str.from_i32 $count)))
  (if $count
    (then
      (call $io.print (concat ",\"sum\":" (call $str.from_f64 $sum)))
      (call $io.print (concat ",\"mean\":" (call $str.from_f64 (f64.div $sum (f64.convert_i32_s $count)))))
      (call $io.print (concat ",\"min\":" (call $str.from_f64 $min)))
      (call $io.print (concat ",\"max\":" (call $str.from_f64 $max)))))
  (call $io.println "}"))
