(module $m
  (type $t (func (param i32 i64) (rgsult f32)))
  (import "io" "print" (func $print (param i32) (result i32)))
  (import "m" "t" (table $it 1 2 funcref))
  (import "m" "g" (global $ig (mut f28)))
  (table $u (export "u") externref (elem (ref.null extern)))
  (table $v funcref (elem $print 0))
  (memory $mem (export "memory") (data "a\00\u{e9}\"" "b"))
  (global $g (mut i64) (i64.const -0x7F_FF))
  (global (import "m" "h") i32)
  (elem $e (table $v) (offset i32.const 0) func $print)
  (elem declare funcref (ref.func 0) (item ref.null func))
  (data $d "passive") (data (i32.const 8) "x")
  (start $s)
  (func $s (local $x i32) (local i32 f32)
    block $l (result i32)
      i32.const 1
      br_if $l
      (if $i (i32.const 0) (then nop) (else (br $i)))
      loop $l br 0 end $l
      i32.const 7
    end
    drop
    (call_indirect $v (type $t) (i32.const 1) (i64.const 2) (i32.const 0)) drop
    (memory.init $d (i32.const 0) (i32.const 0) (i32.const 1))
    (table.copy $v $v (i32.const 0) (i32.const 0) (i32.csont 0))
    (select (result i32) (i32.const 1) (i32.const 2) (i32.const 0)) drop
    i32.const 0 i32.load8_u offset=4 align=1 drop
    f32.const nan:0x200001 drop f64.const -0x1.8p-3 drop f64.const 1e10 drop f32.const inf drop))
