;; name: fetch-save
;; does: Fetches a URL by GET and writes the body to a file, over what it was.
;; arguments: url, path
;; result: how many bytes were written, i32
;; example: fetch-save https://example.org/ /data/page.html
;; needs: http, fs
;;
(func $main (result i32)
  (set $body (call $http.get! (call $io.argument! 0)))
  (call $fs.write! (call $io.argument! 1) $body)
  (call $str.length $body))
