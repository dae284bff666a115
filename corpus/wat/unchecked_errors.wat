;; Numbers from the input; what is none is counted and named.
(func $main
  (set $text (call $io.input))
  (set $sum (i64.const 0))
  (set $bad 0)
  (for $i 0 (call $str.line_count $text)
    (set $line (call $str.trim (call $str.line! $text $i)))
    (set $value $errno (call $str.to_i64 $line))
    (if $errno
      (then
        (inc $bad)
        (call $log.warn (concat "no number: " $line))
        (call $io.println (concat "line " (call $str.from_i32 (i32.add $i 1)) ": " (call $json.quote $line) " is no number")))
      (else (set $sum (i64.add $sum $value)))))
  (call $io.println (concat "sum " (call $str.from_i64 $sum) ", " (call $str.from_i32 $bad) " bad")))
