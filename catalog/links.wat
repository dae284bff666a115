;; name: links
;; does: Fetches an HTML page and lists its links, one on each line: the address as written, a tab, the text.
;; arguments: url
;; result: the links, on stdout; how many there are, i32
;; example: links https://example.org/
;; needs: http
;;
(func $main (result i32)
  (set $links (call $str.html_links (call $http.get! (call $io.argument! 0))))
  (set $count (call $json.length! $links ""))
  (for $i 0 $count
    (set $link (call $json.at! $links "" $i))
    (call $io.println (concat (call $json.get! $link "href") "\t" (call $json.get! $link "text"))))
  $count)
