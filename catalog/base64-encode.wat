;; name: base64-encode
;; does: Writes the input as Base64.
;; input: any bytes
;; result: the Base64, on stdout
;; example: base64-encode, with the input "hello"
;;
(func $main
  (call $io.println (call $str.to_base64 (call $io.input))))
