;; name: page-text
;; does: Fetches an HTML page and prints its text as a person would read it: no tags, scripts or styles.
;; arguments: url
;; result: the text, on stdout
;; example: page-text https://example.org/
;; needs: http
;;
(func $main
  (call $io.println (call $str.html_text (call $http.get! (call $io.argument! 0)))))
