;; name: sql-query
;; does: Runs one SELECT on a granted SQLite database and prints the rows as a JSON array of objects.
;; arguments: database, statement
;; result: the rows, on stdout; how many there are, i32
;; example: sql-query papers "SELECT title FROM papers ORDER BY year DESC LIMIT 3"
;; needs: sql
;;
(func $main (result i32)
  (set $rows (call $sql.query! (call $io.argument! 0) (call $io.argument! 1) ""))
  (call $io.println $rows)
  (call $json.length! $rows ""))
