;; name: unique-lines
;; does: Prints each line of the input that differs from the line before it; sort first to drop all repetitions.
;; input: any text
;; result: the lines, on stdout; how many there are, i32
;; example: unique-lines, with the input "a\na\nb"
;;
(func $main (result i32)
  (set $text (call $io.input))
  (set $kept 0)
  (set $last "")
  (for $i 0 (call $str.line_count $text)
    (set $line (call $str.line! $text $i))
    (if (i32.and (i32.gt_s $i 0) (call $str.eq $line $last)) (then (continue)))
    (call $io.println $line)
    (set $last $line)
    (inc $kept))
  $kept)
