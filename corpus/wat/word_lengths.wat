;; How many words of each length there are in a text; counters stand at 0, 4, 8, …
(func $main
  (set $text (call $fs.read! "/data/story.txt"))
  (set $length 0)
  (for $i 0 (i32.add (call $str.length $text) 1)
    (set $c (i32.or (call $str.byte $text $i) 32))
    (if (i32.and (i32.ge_s $c (char "a")) (i32.le_s $c (char "z")))
      (then (inc $length))
      (else
        (if $length
          (then
            (set $slot (i32.mul $length 4))
            (i32.store $slot (i32.add (i32.load $slot) 1))
            (set $length 0))))))
  (for $n 1 20
    (set $count (i32.load (i32.mul $n 4)))
    (if $count
      (then (call $io.println (concat (call $str.pad_left (call $str.from_i32 $n) 2) " " (call $str.from_i32 $count)))))))
