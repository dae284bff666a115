(module
  (import "a" "b" (tag $far (param i32)))
  (tag $near (export "near") (param i64 f32))
  (global $last (mut exnref) (ref.null exn))
  (func (export "f") (result i64 f32 exnref)
    (block $h (result i64 f32 exnref)
      (try_table $t (catch_ref $near $h) (catch_all 1)
        (throw $near (i64.const 1) (f32.const 2)))
      (throw_ref (global.get $last)))))
