// Arbitrary bytes as the frames of a run that waits, for an instance of a module that has all that frames may hold:
// refused, or resumed with little fuel in each tier, and frozen again into what thaws. No crash, no hang, no leak.

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "engine/execution/execution.h"
#include "engine/execution/module.h"
#include "engine/freeze/instance_image.h"
#include "engine/freeze/snapshot.h"
#include "engine/testing/host_testing.h"
#include "wasm/text/parser.h"

namespace {

using namespace membrane;
using namespace membrane::engine;

// Waits in calls of the host and in loops, through calls of each kind, with every kind of value in its frames.
constexpr std::string_view kModule = R"((module
  (type $give (func (param i64) (result i64)))
  (import "host" "give" (func $give (type $give)))
  (import "host" "take" (func $take (param v128 externref)))
  (tag $thrown (param i32))
  (memory 1)
  (table $t 2 10 funcref)
  (elem (i32.const 0) $give $deep)
  (global $count (mut i64) (i64.const 0))
  (func $deep (param i64) (result i64) (local $v v128) (local $f funcref) (local $e externref) (local $x f64)
    (local.set $f (ref.func $deep))
    (local.set $v (i64x2.splat (local.get 0)))
    (local.set $x (f64.convert_i64_s (local.get 0)))
    (call $take (local.get $v) (local.get $e))
    (i64.store (i32.const 16) (local.get 0))
    (table.set $t (i32.const 1) (local.get $f))
    (if (result i64) (i64.gt_s (local.get 0) (i64.const 0))
      (then (i64.add (i64.trunc_sat_f64_s (local.get $x))
                     (call_indirect $t (type $give) (i64.sub (local.get 0) (i64.const 1)) (i32.const 1))))
      (else (call_indirect $t (type $give) (i64.load (i32.const 16)) (i32.const 0)))))
  (func $tail (param i64) (result i64) (return_call $deep (local.get 0)))
  (func $tries (param i64) (result i64)
    (block $caught (result i32)
      (try_table (result i64) (catch $thrown $caught)
        (call $tail (local.get 0))
        (if (param i64) (result i64) (i64.eqz (local.get 0)) (then (drop) (throw $thrown (i32.const 5))) (else)))
      (return))
    (i64.extend_i32_u))
  (func (export "run") (param i64) (result i64)
    (loop $more
      (global.set $count (i64.add (global.get $count) (call $tries (local.get 0))))
      (br_if $more (i64.lt_s (global.get $count) (i64.const 1000))))
    (global.get $count))))";

// Gives 0; waits when nothing is paid.
Resolver host_in(Store& store) {
  return importing(store, [](HostCall& call) {
    if (!call.charge(10)) return HostAction::kOutOfFuel;
    std::ranges::fill(call.results, 0);
    return HostAction::kContinue;
  });
}

struct Kept {
  std::shared_ptr<const InstanceImage> image;
  std::unique_ptr<KnownPlaces> known;
};

[[noreturn]] void fail_with(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::abort();
}

Kept make(Tier tier) {
  auto parsed = wasm::parse_text(kModule);
  if (!parsed) fail_with(render(parsed.error().front(), kModule, "frames_fuzz"));
  auto compiled = compile_module(std::move(*parsed), kModule, tier);
  if (!compiled) fail_with(render(compiled.error(), kModule, "frames_fuzz"));
  Store store;
  auto instance = store.instantiate(*compiled, host_in(store), {}, {.is_alone = true});
  if (!instance) fail_with(instance.error().error.message);
  auto image = InstanceImage::capture(**instance);
  if (!image) fail_with(image.error().message);
  auto known = std::make_unique<KnownPlaces>((*image)->module());
  return {*image, std::move(known)};
}

// True when they are frames.
bool resume_a_little(std::span<const uint8_t> frames, const Kept& kept) {
  Store store;
  const auto instance = kept.image->instantiate(store, host_in(store), {});
  if (!instance) fail_with(instance.error().error.message);
  ExecutionLimits small;
  small.call_depth = 1'000;
  Execution run(small);
  if (!thaw_frames(frames, run, **instance, *kept.known)) return false;
  for (int i = 0; i < 4 && run.state() == RunState::kOutOfFuel; ++i) {
    run.add_fuel(1'000);
    run.resume();
  }
  if (run.state() != RunState::kOutOfFuel) return true;
  const auto again = freeze_frames(run, **instance, *kept.known);
  if (!again) fail_with("what was thawed does not freeze: " + again.error().message);
  Execution other(small);
  if (const Status thawed = thaw_frames(*again, other, **instance, *kept.known); !thawed)
    fail_with("what was frozen does not thaw: " + thawed.error().message);
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Kept kKept[] = {make(Tier::kInterpreter), make(Tier::kCompiler), make(Tier::kAuto)};
  for (const Kept& kept : kKept)
    if (!resume_a_little({data, size}, kept)) break;  // refused by one, refused by all
  return 0;
}
