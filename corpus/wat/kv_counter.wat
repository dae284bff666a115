;; Counts words in a store of keys and values.
(func $main
  (set $text (call $io.input))
  (for $i 0 (call $str.field_count $text " ")
    (set $word (call $str.trim (call $str.field! $text " " $i)))
    (set $old $errno (call $kv.get $word))
    (set $n 0)
    (if (i32.eqz $errno) (then (set $n (call $str.to_i32! $old))))
    (call $kv.set! $word (call $str.from_i32 (i32.add $n 1))))
  (set $keys (call $kv.keys! ""))
  (for $i 0 (call $json.length! $keys "")
    (set $key (call $json.at! $keys "" $i))
    (call $io.println (concat $key " " (call $kv.get! $key)))))
