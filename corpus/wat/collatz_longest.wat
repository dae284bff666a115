(func $length (param $n i64) (result i32)
  (local $steps i32)
  (block $done
    (loop $step
      (br_if $done (i64.eq (local.get $n) (i64.const 1)))
      (if (i64.eqz (i64.and (local.get $n) (i64.const 1)))
        (then (local.set $n (i64.shr_u (local.get $n) (i64.const 1))))
        (else (local.set $n (i64.add (i64.mul (local.get $n) (i64.const 3)) (i64.const 1)))))
      (local.set $steps (i32.add (local.get $steps) (i32.const 1)))
      (br $step)))
  (local.get $steps))

(func $main
  (set $best 0)
  (set $start 0)
  (for $i 1 100000
    (set $steps (call $length (i64.extend_i32_u $i)))
    (if (i32.gt_s $steps $best)
      (then (set $best $steps) (set $start $i))))
  (call $io.println (concat "start " (call $str.from_i32 $start) ", " (call $str.from_i32 $best) " steps")))
