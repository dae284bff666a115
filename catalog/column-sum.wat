;; name: column-sum
;; does: Adds up a column of a CSV table, found by its name in the first line. Empty fields count as 0; fields in quotes are not understood.
;; arguments: name of the column
;; input: CSV with a line of names
;; result: the sum, f64, and on stdout
;; example: column-sum price, with the input "item,price\nink,2.5\npen,4"
;;
(func $main (result f64)
  (set $table (call $io.input))
  (set $names (call $str.line! $table 0))
  (set $wanted (call $io.argument! 0))
  (set $column -1)
  (for $i 0 (call $str.field_count $names ",")
    (if (call $str.eq $wanted (call $str.trim (call $str.field! $names "," $i)))
      (then (set $column $i) (break))))
  (if (i32.lt_s $column 0)
    (then
      (call $io.eprint (concat "no column is called " $wanted ": " $names "\n"))
      (unreachable)))
  (set $sum 0.0)
  (for $row 1 (call $str.line_count $table)
    (set $field (call $str.trim (call $str.field! (call $str.line! $table $row) "," $column)))
    (if (call $str.length $field)
      (then (inc $sum (call $str.to_f64! $field)))))
  (call $io.println (call $str.from_f64 $sum))
  $sum)
