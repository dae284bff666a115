;; name: today
;; does: Prints the date of the run's clock, in UTC. The clock is virtual unless the policy grants the real one.
;; result: the date as year-month-day, on stdout
;; example: today
;;
(func $main
  (call $io.println (call $str.slice (call $time.format! (call $time.now_ms!)) 0 10)))
