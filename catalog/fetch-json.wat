;; name: fetch-json
;; does: Fetches JSON by GET and prints the value at a path such as items[0].title; "" prints all of it.
;; arguments: url, path
;; result: the value, on stdout: a string without its quotes, anything else as JSON
;; example: fetch-json https://example.org/papers.json items[0].title
;; needs: http
;;
(func $main
  (set $body (call $http.get! (call $io.argument! 0)))
  (call $io.println (call $json.get! $body (call $io.argument! 1))))
