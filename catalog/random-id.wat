;; name: random-id
;; does: Makes a random UUID (version 4). It is the same in each run unless the policy grants real randomness.
;; result: the UUID, on stdout
;; example: random-id
;;
(func $main
  (call $io.println (call $random.uuid)))
