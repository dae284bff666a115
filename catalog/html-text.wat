;; name: html-text
;; does: Strips the tags, scripts and styles of an HTML page that is given as input.
;; input: HTML
;; result: its text, on stdout
;; example: html-text, with the input "<p>Hello <b>there</b></p>"
;;
(func $main
  (call $io.println (call $str.html_text (call $io.input))))
