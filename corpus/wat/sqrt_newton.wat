(func $root (param $x f64) (result f64)
  (set $guess (f64.div $x 2.0))
  (for $i 0 40
    (set $guess (f64.div (f64.add $guess (f64.div $x $guess)) 2.0)))
  $guess)

(func $main
  (for $n 2 11
    (set $x (f64.convert_i32_s $n))
    (call $io.print (call $str.pad_left (call $str.from_i32 $n) 3))
    (call $io.print "  ")
    (call $io.print (call $str.fixed (call $root $x) 10))
    (call $io.println (select "  ok" "  differs"
      (f64.lt (f64.abs (f64.sub (call $root $x) (f64.sqrt $x))) 1e-12)))))
