;; name: summarise
;; does: Fetches an HTML page and has the model summarise its text in a few sentences. Long pages are cut at 20,000 bytes.
;; arguments: url
;; result: the summary, on stdout
;; example: summarise https://example.org/
;; needs: http, ai
;;
(func $main
  (set $text (call $str.html_text (call $http.get! (call $io.argument! 0))))
  (set $text (call $str.slice $text 0 20000))
  (call $io.println (call $ai.complete! (concat "Summarise this page in three sentences.\n\n" $text))))
