;; name: sha256
;; does: Works out the SHA-256 of the input.
;; input: any bytes
;; result: 64 hexadecimal digits, on stdout
;; example: sha256, with the input "abc"
;;
;; Memory below 1024 is the program's own: the eight words of the hash at 0, the schedule of 64 words at 64,
;; the last block at 320 and its digits at 512. The round constants follow the digits.
(memory (export "memory") 2)
(data (i32.const 1024)
  "\98\2f\8a\42\91\44\37\71\cf\fb\c0\b5\a5\db\b5\e9\5b\c2\56\39\f1\11\f1\59\a4\82\3f\92\d5\5e\1c\ab"
  "\98\aa\07\d8\01\5b\83\12\be\85\31\24\c3\7d\0c\55\74\5d\be\72\fe\b1\de\80\a7\06\dc\9b\74\f1\9b\c1"
  "\c1\69\9b\e4\86\47\be\ef\c6\9d\c1\0f\cc\a1\0c\24\6f\2c\e9\2d\aa\84\74\4a\dc\a9\b0\5c\da\88\f9\76"
  "\52\51\3e\98\6d\c6\31\a8\c8\27\03\b0\c7\7f\59\bf\f3\0b\e0\c6\47\91\a7\d5\51\63\ca\06\67\29\29\14"
  "\85\0a\b7\27\38\21\1b\2e\fc\6d\2c\4d\13\0d\38\53\54\73\0a\65\bb\0a\6a\76\2e\c9\c2\81\85\2c\72\92"
  "\a1\e8\bf\a2\4b\66\1a\a8\70\8b\4b\c2\a3\51\6c\c7\19\e8\92\d1\24\06\99\d6\85\35\0e\f4\70\a0\6a\10"
  "\16\c1\a4\19\08\6c\37\1e\4c\77\48\27\b5\bc\b0\34\b3\0c\1c\39\4a\aa\d8\4e\4f\ca\9c\5b\f3\6f\2e\68"
  "\ee\82\8f\74\6f\63\a5\78\14\78\c8\84\08\02\c7\8c\fa\ff\be\90\eb\6c\50\a4\f7\a3\f9\be\f2\78\71\c6")

;; The word at an address, with its bytes reversed.
(func $big_endian (param $word i32) (result i32)
  (i32.or
    (i32.rotl (i32.and $word 0x00FF00FF) 24)
    (i32.rotl (i32.and $word 0xFF00FF00) 8)))

(func $add_block (param $block i32)
  (for $i 0 16
    (i32.store offset=64 (i32.shl $i 2) (call $big_endian (i32.load (i32.add $block (i32.shl $i 2))))))
  (for $i 16 64
    (set $p (i32.shl $i 2))
    (set $x (i32.load offset=4 $p))    ;; w[i - 15]
    (set $y (i32.load offset=56 $p))   ;; w[i - 2]
    (set $x (i32.xor (i32.xor (i32.rotr $x 7) (i32.rotr $x 18)) (i32.shr_u $x 3)))
    (set $y (i32.xor (i32.xor (i32.rotr $y 17) (i32.rotr $y 19)) (i32.shr_u $y 10)))
    (i32.store offset=64 $p
      (i32.add (i32.add (i32.load $p) $x) (i32.add (i32.load offset=36 $p) $y))))
  (set $a (i32.load offset=0 0)) (set $b (i32.load offset=4 0))
  (set $c (i32.load offset=8 0)) (set $d (i32.load offset=12 0))
  (set $e (i32.load offset=16 0)) (set $f (i32.load offset=20 0))
  (set $g (i32.load offset=24 0)) (set $h (i32.load offset=28 0))
  (for $i 0 64
    (set $p (i32.shl $i 2))
    (set $x (i32.xor (i32.xor (i32.rotr $e 6) (i32.rotr $e 11)) (i32.rotr $e 25)))
    (set $y (i32.xor (i32.and $e $f) (i32.and (i32.xor $e -1) $g)))
    (set $t (i32.add (i32.add (i32.add $h $x) (i32.add $y (i32.load offset=1024 $p))) (i32.load offset=64 $p)))
    (set $x (i32.xor (i32.xor (i32.rotr $a 2) (i32.rotr $a 13)) (i32.rotr $a 22)))
    (set $y (i32.xor (i32.xor (i32.and $a $b) (i32.and $a $c)) (i32.and $b $c)))
    (set $h $g) (set $g $f) (set $f $e) (set $e (i32.add $d $t))
    (set $d $c) (set $c $b) (set $b $a) (set $a (i32.add $t (i32.add $x $y))))
  (call $add 0 $a) (call $add 4 $b) (call $add 8 $c) (call $add 12 $d)
  (call $add 16 $e) (call $add 20 $f) (call $add 24 $g) (call $add 28 $h))

(func $add (param $at i32) (param $value i32)
  (i32.store $at (i32.add (i32.load $at) $value)))

(func $main (export "main")
  (i32.store offset=0 0 0x6a09e667) (i32.store offset=4 0 0xbb67ae85)
  (i32.store offset=8 0 0x3c6ef372) (i32.store offset=12 0 0xa54ff53a)
  (i32.store offset=16 0 0x510e527f) (i32.store offset=20 0 0x9b05688c)
  (i32.store offset=24 0 0x1f83d9ab) (i32.store offset=28 0 0x5be0cd19)
  (set $text (call $io.input))
  (set $left (i32.load $text))
  (set $at (i32.add $text 4))
  (while (i32.ge_u $left 64)
    (call $add_block $at)
    (inc $at 64)
    (dec $left 64))
  ;; The remaining bytes, a 1 bit, and the length in bits at the end of a block.
  (memory.fill 320 0 64)
  (memory.copy 320 $at $left)
  (i32.store8 (i32.add 320 $left) 0x80)
  (if (i32.ge_u $left 56)
    (then (call $add_block 320) (memory.fill 320 0 64)))
  (set $bits (i64.shl (i64.extend_i32_u (i32.load $text)) 3))
  (i32.store offset=56 320 (call $big_endian (i32.wrap_i64 (i64.shr_u $bits 32))))
  (i32.store offset=60 320 (call $big_endian (i32.wrap_i64 $bits)))
  (call $add_block 320)
  ;; Its digits, as a string at 512.
  (i32.store 512 64)
  (for $i 0 64
    (set $digit (i32.and 15 (i32.shr_u (i32.load (i32.and 28 (i32.shr_u $i 1))) (i32.sub 28 (i32.shl (i32.and $i 7) 2)))))
    (i32.store8 offset=516 $i (i32.add $digit (select 48 87 (i32.lt_u $digit 10)))))
  (call $io.println (i32.const 512)))
