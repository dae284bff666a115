;; Sieve of Eratosthenes in linear memory: how many primes are below a million, and the last of them.
(module
  (memory (export "memory") 17)
  (func $main (export "main")
    (local $i i32) (local $j i32) (local $count i32) (local $last i32)
    (local.set $i (i32.const 2))
    (block $end
      (loop $outer
        (br_if $end (i32.ge_u (local.get $i) (i32.const 1000000)))
        (if (i32.eqz (i32.load8_u offset=65536 (local.get $i)))
          (then
            (local.set $count (i32.add (local.get $count) (i32.const 1)))
            (local.set $last (local.get $i))
            (if (i32.lt_u (local.get $i) (i32.const 1000))
              (then
                (local.set $j (i32.mul (local.get $i) (local.get $i)))
                (block $marked
                  (loop $mark
                    (br_if $marked (i32.ge_u (local.get $j) (i32.const 1000000)))
                    (i32.store8 offset=65536 (local.get $j) (i32.const 1))
                    (local.set $j (i32.add (local.get $j) (local.get $i)))
                    (br $mark)))))))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br $outer)))
    (call $io.print (string "primes: "))
    (call $io.print_i32 (local.get $count))
    (call $io.print (string "\nlast: "))
    (call $io.print_i32 (local.get $last))
    (call $io.newline)))
