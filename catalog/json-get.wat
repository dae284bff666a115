;; name: json-get
;; does: Prints the value at a path of the JSON that is given as input.
;; arguments: path
;; input: JSON
;; result: the value, on stdout: a string without its quotes, anything else as JSON
;; example: json-get authors[0].name, with the input {"authors":[{"name":"Ada"}]}
;;
(func $main
  (call $io.println (call $json.get! (call $io.input) (call $io.argument! 0))))
