"""Programs that tests freeze in the middle and thaw elsewhere, and what must be the same as in a run that is never
frozen."""

ARGUMENT = 300
TIERS = ("interpreter", "compiler", "auto")
PARTS = 2  # a run is frozen before it begins, at a third of its fuel, and at two
FIELDS = ("outcome", "results", "stdout", "fuel_used", "memory_peak_bytes", "host_calls")


def fuel_of_part(whole, part):
    """Where the run of this report is frozen, for parts 0 to PARTS."""
    return whole["fuel_used"] * part // (PARTS + 1)


def facts_of(end):
    """What a thawed run has in common with a whole one. It has no text, so its locations are those of the binary."""
    facts = {field: end.get(field) for field in FIELDS}
    return facts | {field: end.get("error", {}).get(field) for field in ("code", "message")}


# Each has run(n); its name says what it exercises.
PROGRAMS = {
    "floats": """
      (func $step (param $x f64) (param $i i32) (result f64)
        (f64.add (f64.mul (local.get $x) (f64.const 1.0000001)) (f64.div (f64.const 1) (f64.convert_i32_u (local.get $i)))))
      (func (export "run") (param $n i32) (result f64 f32 i64 i64) (local $x f64) (local $y f32) (local $bits i64)
        (loop $next
          (local.set $x (call $step (f64.sqrt (f64.abs (local.get $x))) (local.get $n)))
          (local.set $y (f32.nearest (f32.add (f32.demote_f64 (local.get $x)) (f32.min (local.get $y) (f32.const -0)))))
          (local.set $bits (i64.rotl (i64.add (local.get $bits) (i64.reinterpret_f64
            (f64.sub (f64.const inf) (f64.promote_f32 (f32.div (local.get $y) (f32.const 0)))))) (i64.const 7)))
          (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
        (local.get $x) (local.get $y) (local.get $bits)
        (i64.add (i64.trunc_sat_f64_u (f64.const nan)) (i64.trunc_sat_f32_s (f32.const -1e30))))""",
    "vectors": """
      (memory 1)
      (func (export "run") (param $n i32) (result i64 i64) (local $v v128) (local $i i32)
        (local.set $v (v128.const i32x4 1 2 3 4))
        (loop $next
          (local.set $v (i32x4.add (i16x8.q15mulr_sat_s (local.get $v) (i8x16.swizzle (local.get $v)
              (v128.const i8x16 3 1 2 0 99 5 6 7 8 9 10 11 12 13 14 15)))
            (i8x16.popcnt (f32x4.add (f32x4.convert_i32x4_s (local.get $v)) (f32x4.splat (f32.const nan))))))
          (local.set $v (v128.xor (local.get $v) (f64x2.sqrt (f64x2.convert_low_i32x4_s (i32x4.splat (local.get $n))))))
          (v128.store (i32.shl (i32.and (local.get $n) (i32.const 255)) (i32.const 4)) (local.get $v))
          (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
        (loop $sum
          (local.set $v (i64x2.add (local.get $v) (v128.load (i32.shl (local.get $i) (i32.const 4)))))
          (br_if $sum (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 256))))
        (i64x2.extract_lane 0 (local.get $v)) (i64x2.extract_lane 1 (local.get $v)))""",
    "calls": """
      (type $unary (func (param i32) (result i32)))
      (table funcref (elem $down $twice))
      (global $calls (mut i32) (i32.const 0))
      (func $down (type $unary) (global.set $calls (i32.add (global.get $calls) (i32.const 1)))
        (if (result i32) (i32.eqz (local.get 0)) (then (i32.const 1))
          (else (i32.add (i32.mul (call_indirect (type $unary) (i32.sub (local.get 0) (i32.const 1))
            (i32.and (local.get 0) (i32.const 1))) (i32.const 3)) (local.get 0)))))
      (func $twice (type $unary) (i32.xor (call $down (local.get 0)) (call $down (i32.shr_u (local.get 0) (i32.const 2)))))
      (func (export "run") (param $n i32) (result i32 i32)
        (call $down (i32.rem_u (local.get $n) (i32.const 19))) (global.get $calls))""",
    "memory": """
      (memory 1 3)
      (func (export "run") (param $n i32) (result i32) (local $sum i32) (local $at i32)
        (call $io.print (string "begun, "))
        (drop (memory.grow (i32.const 1)))
        (memory.fill (i32.const 70000) (i32.const 0xA5) (i32.const 1000))
        (loop $next
          (local.set $at (i32.rem_u (i32.mul (local.get $n) (i32.const 40503)) (i32.const 131000)))
          (i32.store16 (local.get $at) (local.get $n))
          (local.set $sum (i32.add (i32.rotl (local.get $sum) (i32.const 5)) (i32.load (local.get $at))))
          (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
        (call $io.print (string "done")) (local.get $sum))""",
    "trap": """
      (memory 1)
      (func (export "run") (param $n i32) (result i32)
        (loop $next (i32.store8 (local.get $n) (local.get $n))
          (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
        (i32.load (i32.const 65533)))""",
    "exceptions": """
      (tag $odd (param i32))
      (func $check (param $n i32) (result i32)
        (if (i32.and (local.get $n) (i32.const 1)) (then (throw $odd (local.get $n))))
        (i32.const 2))
      (func $last (param $n i32) (result i32) (return_call $check (local.get $n)))
      (func (export "run") (param $n i32) (result i32 i32) (local $caught i32) (local $sum i32)
        (loop $next
          (block $done
            (local.set $caught (i32.add (local.get $caught)
              (block $handler (result i32)
                (local.set $sum (i32.add (local.get $sum)
                  (try_table (result i32) (catch $odd $handler) (call $last (local.get $n)))))
                (br $done)))))
          (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
        (local.get $caught) (local.get $sum))""",
}
