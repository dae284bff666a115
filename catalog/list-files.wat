;; name: list-files
;; does: Lists a directory, one entry on each line: its size, a tab, its name; directories end in "/".
;; arguments: path
;; result: the entries, on stdout; how many there are, i32
;; example: list-files /data
;; needs: fs
;;
(func $main (result i32)
  (set $entries (call $fs.list! (call $io.argument! 0)))
  (set $count (call $json.length! $entries ""))
  (for $i 0 $count
    (set $entry (call $json.at! $entries "" $i))
    (set $is_directory (call $str.eq (call $json.get! $entry "directory") "true"))
    (call $io.println (concat
      (call $json.get! $entry "size") "\t" (call $json.get! $entry "name") (select "/" "" $is_directory))))
  $count)
