;; name: ask-model
;; does: Puts a question about the input to the model and prints the answer.
;; arguments: question
;; input: the text that the question is about; may be empty
;; result: the answer, on stdout
;; example: ask-model "Which language is this?", with the input "Guten Tag"
;; needs: ai
;;
(func $main
  (call $io.println (call $ai.complete! (concat (call $io.argument! 0) "\n\n" (call $io.input)))))
