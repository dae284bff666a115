;; name: word-count
;; does: Counts the lines, words and bytes of the input.
;; input: any text
;; result: "lines words bytes" on stdout
;; example: word-count, with the input "to be or\nnot to be"
;;
(func $is_space (param $c i32) (result i32)
  (i32.or (i32.eq $c 32) (i32.and (i32.ge_s $c 9) (i32.le_s $c 13))))

(func $main
  (set $text (call $io.input))
  (set $end (i32.add $text (i32.add 4 (i32.load $text))))
  (set $words 0)
  (set $inside 0)
  (for $at (i32.add $text 4) $end
    (if (call $is_space (i32.load8_u $at))
      (then (set $inside 0))
      (else
        (if (i32.eqz $inside) (then (inc $words)))
        (set $inside 1))))
  (call $io.println (concat
    (call $str.from_i32 (call $str.line_count $text)) " "
    (call $str.from_i32 $words) " "
    (call $str.from_i32 (i32.load $text)))))
