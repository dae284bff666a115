;; name: sort-lines
;; does: Prints the lines of the input in the order of their bytes; equal lines keep their order.
;; input: any text
;; result: the lines, sorted, on stdout
;; example: sort-lines, with the input "b\na\nc"
;;
(func $main
  (set $text (call $io.input))
  (set $count (call $str.line_count $text))
  ;; Room for the addresses of the lines: a string, so its length comes first, with four bytes for each line.
  (set $lines (i32.add 4 (call $str.repeat "    " $count)))
  (for $i 0 $count
    (set $line (call $str.line! $text $i))
    ;; Where the line belongs among those before it, by halving.
    (set $low 0)
    (set $high $i)
    (while (i32.lt_s $low $high)
      (set $middle (i32.div_s (i32.add $low $high) 2))
      (if (i32.lt_s (call $str.compare $line (i32.load (i32.add $lines (i32.mul $middle 4)))) 0)
        (then (set $high $middle))
        (else (set $low (i32.add $middle 1)))))
    (set $place (i32.add $lines (i32.mul $low 4)))
    (memory.copy (i32.add $place 4) $place (i32.mul 4 (i32.sub $i $low)))
    (i32.store $place $line))
  (for $i 0 $count
    (call $io.println (i32.load (i32.add $lines (i32.mul $i 4))))))
