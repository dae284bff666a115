;; name: read-file
;; does: Prints a file.
;; arguments: path
;; result: what is in it, on stdout
;; example: read-file /data/notes.txt
;; needs: fs
;;
(func $main
  (call $io.print (call $fs.read! (call $io.argument! 0))))
