(func $main
  (for $i 1 31
    (if (i32.eqz (i32.rem_s $i 15))
      (then (call $io.println "FizzBuzz"))
      (else
        (if (i32.eqz (i32.rem_s $i 3))
          (then (call $io.println "Fizz"))
          (else
            (if (i32.eqz (i32.rem_s $i 5))
              (then (call $io.println "Buzz"))
              (else (call $io.println (call $str.from_i32 $i))))))))))
