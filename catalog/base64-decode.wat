;; name: base64-decode
;; does: Prints the bytes that the Base64 of the input encodes. White space around it is ignored.
;; input: Base64
;; result: the bytes, on stdout
;; example: base64-decode, with the input "aGVsbG8="
;;
(func $main
  (call $io.print (call $str.from_base64! (call $str.trim (call $io.input)))))
