;; name: fetch
;; does: Fetches a URL by GET and prints the body. A status of 400 or more is said on stderr; the body is printed all the same.
;; arguments: url
;; result: the body, on stdout; the HTTP status, i32
;; example: fetch https://example.org/
;; needs: http
;;
(func $main (result i32)
  (call $io.print (call $http.get! (call $io.argument! 0)))
  (set $status (call $http.status))
  (if (i32.ge_s $status 400)
    (then (call $io.eprint (concat "HTTP " (call $str.from_i32 $status) "\n"))))
  $status)
