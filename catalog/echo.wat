;; name: echo
;; does: Prints its input as it is.
;; input: any text
;; result: the same text, on stdout
;; example: echo, with the input "hello"
;;
(module
  (import "io" "input" (func $io.input (result i32)))
  (import "io" "print" (func $io.print (param i32)))
  (memory (export "memory") 1)
  (func (export "main")
    (call $io.print (call $io.input))))
