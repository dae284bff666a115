;; name: csv-json
;; does: Makes a JSON array of a CSV table, an object of texts for each line. Fields in quotes are not understood.
;; input: CSV with a line of names
;; result: the JSON, on stdout
;; example: csv-json, with the input "item,price\nink,2.5"
;;
(func $main
  (set $table (call $io.input))
  (set $names (call $str.line! $table 0))
  (set $columns (call $str.field_count $names ","))
  (call $io.print "[")
  (for $row 1 (call $str.line_count $table)
    (set $line (call $str.line! $table $row))
    (if (i32.gt_s $row 1) (then (call $io.print ",")))
    (for $i 0 $columns
      (call $io.print (select "," "{" (i32.gt_s $i 0)))
      (set $field $missing (call $str.field $line "," $i))
      (call $io.print (concat
        (call $json.quote (call $str.trim (call $str.field! $names "," $i))) ":"
        (call $json.quote (call $str.trim $field)))))
    (call $io.print "}"))
  (call $io.println "]"))
