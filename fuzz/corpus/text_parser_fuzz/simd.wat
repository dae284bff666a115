(func (result v128)
  (i8x16.shuffle 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 31 (v128.const f32x4 1.5 nan -inf 0x1p3) (v128.const i64x2 1 -2)))
(memory 1)
(func (v128.store8_lane offset=1 align=1 3 (i32.const 0) (v128.const i8x16 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)))
