(func $count (param $text i32) (param $level i32)
  (call $io.println (concat (call $str.pad_right $level 9)
    (call $str.from_i32 (call $str.count $text (concat " " $level " "))))))

(func $main
  (set $log (call $fs.read! "/data/app.log"))
  (call $count $log "DEBUG")
  (call $count $log "INFO")
  (call $count $log "WARNING")
  (call $count $log "ERROR")
  ;; the slowest job
  (set $slowest 0)
  (set $which "")
  (for $i 0 (call $str.line_count $log)
    (set $line (call $str.line! $log $i))
    (set $ms $missing (call $str.between $line "finished in " " ms"))
    (if $missing (then (continue)))
    (set $value (call $str.to_i32! $ms))
    (if (i32.gt_s $value $slowest)
      (then
        (set $slowest $value)
        (set $which (call $str.between! $line "job " " finished")))))
  (call $io.println (concat "slowest: job " $which " with " (call $str.from_i32 $slowest) " ms")))
