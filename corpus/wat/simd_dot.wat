(module
  (memory (export "memory") 1)
  (func (export "main") (result f32)
    (local $i i32) (local $sum v128)
    (loop $fill
      (f32.store (i32.shl (local.get $i) (i32.const 2)) (f32.convert_i32_s (local.get $i)))
      (f32.store offset=4096 (i32.shl (local.get $i) (i32.const 2)) (f32.const 0.5))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $fill (i32.lt_u (local.get $i) (i32.const 64))))
    (local.set $i (i32.const 0))
    (loop $dot
      (local.set $sum (f32x4.add (local.get $sum)
        (f32x4.mul (v128.load (local.get $i)) (v128.load offset=4096 (local.get $i)))))
      (local.set $i (i32.add (local.get $i) (i32.const 16)))
      (br_if $dot (i32.lt_u (local.get $i) (i32.const 256))))
    (f32.add
      (f32.add (f32x4.extract_lane 0 (local.get $sum)) (f32x4.extract_lane 1 (local.get $sum)))
      (f32.add (f32x4.extract_lane 2 (local.get $sum)) (f32x4.extract_lane 3 (local.get $sum))))))
