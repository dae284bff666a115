;; name: remember
;; does: Keeps a text under a key in the key-value store, over what was there.
;; arguments: key, text
;; result: nothing
;; example: remember favourite "paper 3"
;; needs: kv
;;
(func $main
  (call $kv.set! (call $io.argument! 0) (call $io.argument! 1)))
