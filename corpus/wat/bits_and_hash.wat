;; FNV-1a of each argument, its bits, and its bytes turned round.
(func $fnv (param $text i32) (result i32)
  (set $hash 0x811c9dc5)
  (for $i 0 (i32.load $text)
    (set $hash (i32.mul (i32.xor $hash (i32.load8_u (i32.add (i32.add $text 4) $i))) 0x01000193)))
  $hash)

(func $hex (param $value i32)
  (for $i 0 8
    (set $digit (i32.and (i32.shr_u $value (i32.sub 28 (i32.mul $i 4))) 15))
    (call $io.print (call $str.from_char (i32.add $digit (select 48 87 (i32.lt_u $digit 10)))))))

(func $main
  (for $a 0 (call $io.argument_count)
    (set $text (call $io.argument! $a))
    (set $hash (call $fnv $text))
    (call $io.print (concat $text " "))
    (call $hex $hash)
    (call $io.println (concat " popcnt=" (call $str.from_i32 (i32.popcnt $hash))
      " clz=" (call $str.from_i32 (i32.clz $hash)) " ctz=" (call $str.from_i32 (i32.ctz $hash))))
    (call $hex (i32.rotl $hash 8))
    (call $io.newline)))
