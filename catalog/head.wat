;; name: head
;; does: Prints the first lines of the input; all of them when there are fewer.
;; arguments: how many lines
;; input: any text
;; result: the lines, on stdout
;; example: head 2, with the input "a\nb\nc"
;;
(func $main
  (set $text (call $io.input))
  (set $wanted (call $str.to_i32! (call $io.argument! 0)))
  (set $there (call $str.line_count $text))
  (for $i 0 (select $wanted $there (i32.lt_s $wanted $there))
    (call $io.println (call $str.line! $text $i))))
