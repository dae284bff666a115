;; name: add
;; does: Adds two integers, wrapping at 32 bits.
;; arguments: a i32, b i32
;; result: the sum, i32
;; example: add 2 40
;;
(module
  (func (export "main") (param $a i32) (param $b i32) (result i32)
    (i32.add (local.get $a) (local.get $b))))
