;; name: write-file
;; does: Writes the input to a file, over what it was.
;; arguments: path
;; input: what the file will hold
;; result: how many bytes were written, i32
;; example: write-file /data/notes.txt, with the input "first line"
;; needs: fs
;;
(func $main (result i32)
  (call $fs.write! (call $io.argument! 0) (call $io.input))
  (call $str.length (call $io.input)))
