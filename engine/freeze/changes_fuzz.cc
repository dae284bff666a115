// Arbitrary bytes as the changes of an instance since its image, for a module that has everything that can change:
// refused, or instantiated, called in each tier, and written again into what is read. No crash, no hang, no leak.

#include <cstdio>
#include <cstdlib>
#include <string>

#include "engine/execution/execution.h"
#include "engine/execution/module.h"
#include "engine/freeze/image_changes.h"
#include "engine/testing/host_testing.h"
#include "wasm/text/parser.h"

namespace {

using namespace membrane;
using namespace membrane::engine;

constexpr std::string_view kModule = R"((module
  (type $give (func (result i32)))
  (import "host" "number" (func $number (result i32)))
  (memory $m 2 8)
  (memory $n 1 2)
  (data (i32.const 100) "warm")
  (data $passive "passive")
  (table $t 4 20 funcref)
  (table $typed 2 6 (ref $give) (ref.func $one))
  (table $others 1 3 externref)
  (elem (i32.const 0) $one $number)
  (elem $elements funcref (ref.func $two) (ref.func $number))
  (global $count (mut i32) (i32.const 7))
  (global $wide (mut v128) (v128.const i64x2 1 2))
  (global $held (mut funcref) (ref.func $two))
  (global $typed_one (mut (ref $give)) (ref.func $two))
  (global $fixed i64 (i64.const 5))
  (func $one (type $give) i32.const 1)
  (func $two (type $give) i32.const 2)
  (func $three (param i64) (result f32) f32.const 3)
  (elem declare func $three)
  (func (export "run") (result i32)
    (table.set $t (i32.const 3) (global.get $held))
    (i32.store $n (i32.const 0) (i32.load8_u $m (i32.const 131071)))
    (drop (memory.grow $m (i32.const 1)))
    (if (i32.eqz (table.size $typed)) (then unreachable))
    (i32.add (i32.add (global.get $count) (call_ref $give (table.get $typed (i32.const 1))))
             (i32.add (call_ref $give (global.get $typed_one)) (call_indirect $t (type $give) (i32.const 0)))))))";

Resolver host_in(Store& store) {
  return importing(store, [](HostCall& call) {
    call.results[0] = 100;
    return HostAction::kContinue;
  });
}

[[noreturn]] void fail_with(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::abort();
}

std::shared_ptr<const InstanceImage> make(Tier tier) {
  auto parsed = wasm::parse_text(kModule);
  if (!parsed) fail_with(render(parsed.error().front(), kModule, "changes_fuzz"));
  auto compiled = compile_module(std::move(*parsed), kModule, tier);
  if (!compiled) fail_with(render(compiled.error(), kModule, "changes_fuzz"));
  Store store;
  auto instance = store.instantiate(*compiled, host_in(store), {}, {.is_alone = true});
  if (!instance) fail_with(instance.error().error.message);
  auto image = InstanceImage::capture(**instance);
  if (!image) fail_with(image.error().message);
  return *image;
}

InstanceLimits limits() {
  InstanceLimits limits;
  limits.memory_bytes = 9u << 16;
  limits.table_elements = 24;
  return limits;
}

// True when they are changes.
bool try_changes(std::span<const uint8_t> bytes, const InstanceImage& of) {
  const auto image = read_changes(bytes, of, limits());
  if (!image) return false;
  Store store;
  const auto instance = (*image)->instantiate(store, host_in(store), limits());
  if (!instance) return true;
  Execution run;
  if (!run.start((*instance)->find_function("run"), {})) fail_with("the function does not start");
  run.add_fuel(1'000);
  run.resume();
  const auto captured = InstanceImage::capture(**instance, InstanceImage::Keep::kChanges);
  if (!captured) fail_with("what ran has no image: " + captured.error().message);
  const auto again = write_changes(**captured, of);
  if (!again) fail_with("what was read is not written: " + again.error().message);
  const auto back = read_changes(*again, of, limits());
  if (!back) fail_with("what was written is not read: " + back.error().message);
  if (write_changes(**back, of).value() != *again) fail_with("what was read again is other than it was");
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::shared_ptr<const InstanceImage> kImages[] = {make(Tier::kInterpreter),
                                                                 make(Tier::kCompiler)};
  for (const auto& image : kImages)
    if (!try_changes({data, size}, *image)) break;  // refused by one, refused by all
  return 0;
}
