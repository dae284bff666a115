(func $days (param $from i32) (param $to i32) (result i64)
  (i64.div_s (i64.sub (call $time.parse! $to) (call $time.parse! $from)) 86400000))

(func $main
  (call $io.print_i64 (call $days "2024-02-28" "2024-03-01"))
  (call $io.newline)
  (call $io.print_i64 (call $days "2024-05-14" "2024-12-25"))
  (call $io.newline)
  (set $t (call $time.parse! "2024-12-31T23:30:00+02:00"))
  (call $io.println (call $time.format! $t))
  (call $io.println (call $str.slice (call $time.format! (i64.add $t 86400000)) 0 10))
  ;; the day of the week: 1970-01-01 was a Thursday
  (set $weekday (i32.wrap_i64 (i64.rem_s (i64.add (i64.div_s $t 86400000) 4) 7)))
  (call $io.println (call $str.field! "Sunday Monday Tuesday Wednesday Thursday Friday Saturday" " " $weekday))
  (set $bad $errno (call $time.parse "2024-02-30"))
  (call $io.println (concat "errno " (call $str.from_i32 $errno))))
