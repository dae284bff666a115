;; name: recall
;; does: Prints what is kept under a key in the key-value store.
;; arguments: key
;; result: the text, on stdout; 1 when there is such a key, else 0, i32
;; example: recall favourite
;; needs: kv
;;
(func $main (result i32)
  (set $key (call $io.argument! 0))
  (if (i32.eqz (call $kv.exists! $key)) (then (return 0)))
  (call $io.println (call $kv.get! $key))
  1)
