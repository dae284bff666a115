;; name: grep
;; does: Prints the lines of the input that contain a text, exactly as written.
;; arguments: text
;; input: any text
;; result: the lines, on stdout; how many there are, i32
;; example: grep error, with the input "ok\nerror 7\nok"
;;
(func $main (result i32)
  (set $text (call $io.input))
  (set $needle (call $io.argument! 0))
  (set $found 0)
  (for $i 0 (call $str.line_count $text)
    (set $line (call $str.line! $text $i))
    (if (call $str.contains $line $needle)
      (then (call $io.println $line) (inc $found))))
  $found)
