;; name: json-list
;; does: Prints a member of each item of a JSON array, one on a line; items without it are left out.
;; arguments: path of the array ("" when the input is the array), path of the member in an item
;; input: JSON
;; result: the values, on stdout; how many there are, i32
;; example: json-list papers title, with the input {"papers":[{"title":"A"},{"title":"B"}]}
;;
(func $main (result i32)
  (set $json (call $io.input))
  (set $path (call $io.argument! 0))
  (set $member (call $io.argument! 1))
  (set $printed 0)
  (for $i 0 (call $json.length! $json $path)
    (set $value $errno (call $json.get (call $json.at! $json $path $i) $member))
    (if $errno (then (continue)))
    (call $io.println $value)
    (inc $printed))
  $printed)
