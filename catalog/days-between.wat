;; name: days-between
;; does: Counts the days from one date to another; negative when the second is the earlier.
;; arguments: from, to: dates (2024-02-29) or times
;; result: the days, rounded down, i64
;; example: days-between 2024-02-28 2024-03-01
;;
(func $main (result i64)
  (set $from (call $time.parse! (call $io.argument! 0)))
  (set $to (call $time.parse! (call $io.argument! 1)))
  (set $days (i64.div_s (i64.sub $to $from) 86400000))
  ;; Division rounds towards zero; days must be rounded down.
  (if (i64.lt_s (i64.sub $to $from) (i64.mul $days 86400000)) (then (dec $days)))
  $days)
