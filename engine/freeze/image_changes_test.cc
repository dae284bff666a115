// What an instance changed since its image is all that tells them apart, as bytes as well.

#include "engine/freeze/image_changes.h"

#include <gtest/gtest.h>

#include <random>

#include "engine/testing/engine_testing.h"
#include "engine/testing/host_testing.h"

namespace membrane::engine {
namespace {

constexpr uint64_t kPlenty = 10'000'000;

// Everything that can change: two memories, a table that has an import, globals of each kind, segments.
constexpr std::string_view kModule = R"((module
  (type $give (func (result i32)))
  (import "host" "number" (func $number (result i32)))
  (memory $m (export "memory") 20 40)
  (memory $n 1 4)
  (data (i32.const 66000) "warm")
  (data $passive "passive")
  (table $t (export "table") 4 20 funcref)
  (table $typed 2 (ref $give) (ref.func $one))
  (elem (i32.const 0) $one $number)
  (elem $elements funcref (ref.func $two) (ref.func $number))
  (global $count (mut i32) (i32.const 7))
  (global $wide (mut v128) (v128.const i64x2 1 2))
  (global $held (mut funcref) (ref.func $two))
  (global $fixed i64 (i64.const 5))
  (func $one (type $give) i32.const 1)
  (func $two (type $give) i32.const 2)
  (func (export "poke") (param i32 i32) (i32.store8 $m (local.get 0) (local.get 1)))
  (func (export "poke other") (param i32 i32) (i32.store $n (local.get 0) (local.get 1)))
  (func (export "fill") (param i32 i32 i32) (memory.fill $m (local.get 0) (local.get 1) (local.get 2)))
  (func (export "grow") (drop (memory.grow $m (i32.const 1))))
  (func (export "grow table") (drop (table.grow $t (ref.null func) (i32.const 1))))
  (func (export "grow typed") (drop (table.grow $typed (ref.func $two) (i32.const 1))))
  (func (export "set") (param i32 i32)
    (table.set $t (local.get 0) (if (result funcref) (local.get 1)
      (then (ref.func $number)) (else (ref.func $two)))))
  (func (export "clear") (param i32) (table.set $t (local.get 0) (ref.null func)))
  (func (export "globals") (param i32)
    (global.set $count (local.get 0))
    (global.set $wide (i32x4.splat (local.get 0)))
    (global.set $held (select (result funcref) (ref.func $number) (ref.null func) (local.get 0))))
  (func (export "drop") (elem.drop $elements) (data.drop $passive))
  (func (export "call") (param i32) (result i32) (call_indirect $t (type $give) (local.get 0)))
  (func (export "peek") (param i32) (result i32) (i32.load8_u $m (local.get 0)))))";

Resolver host_in(Store& store) {
  return importing(store, [](HostCall& call) {
    call.results[0] = 100;
    return HostAction::kContinue;
  });
}

struct Sandbox {
  Store store;
  Instance* instance = nullptr;

  uint64_t call(std::string_view name, std::initializer_list<int32_t> numbers = {}) const {
    std::vector<Value> arguments;
    for (const int32_t number : numbers) arguments.push_back(Value::i32(number));
    Execution run;
    EXPECT_TRUE(run.start(instance->find_function(name), arguments));
    run.add_fuel(kPlenty);
    EXPECT_EQ(run.resume(), RunState::kFinished) << name;
    return run.results().empty() ? 0 : run.results()[0].bits;
  }
  [[nodiscard]] std::shared_ptr<const InstanceImage> image(InstanceImage::Keep keep) const {
    auto made = InstanceImage::capture(*instance, keep);
    EXPECT_TRUE(made) << made.error().message;
    return *made;
  }
  // All that it is.
  [[nodiscard]] ImageIdentity identity() const {
    return image(InstanceImage::Keep::kWhole)->identity().value();
  }
};

std::unique_ptr<Sandbox> fork(const InstanceImage& image) {
  auto sandbox = std::make_unique<Sandbox>();
  auto made = image.instantiate(sandbox->store, host_in(sandbox->store), {});
  EXPECT_TRUE(made);
  sandbox->instance = *made;
  return sandbox;
}

class ImageChangesIn : public ::testing::TestWithParam<Tier> {
 protected:
  void SetUp() override {
    Sandbox first;
    auto made =
        first.store.instantiate(compile(kModule, GetParam()), host_in(first.store), {}, {.is_alone = true});
    ASSERT_TRUE(made);
    first.instance = *made;
    first.call("poke", {1'000'000, 42});
    first.call("set", {2, 0});
    first.call("fill", {300'000, 9, 9000});
    template_ = first.image(InstanceImage::Keep::kWhole);
  }
  std::vector<uint8_t> written(const Sandbox& sandbox,
                               InstanceImage::Keep keep = InstanceImage::Keep::kChanges) const {
    auto bytes = write_changes(*sandbox.image(keep), *template_);
    EXPECT_TRUE(bytes) << bytes.error().message;
    return *std::move(bytes);
  }
  Result<std::shared_ptr<const InstanceImage>> read(std::span<const uint8_t> bytes) const {
    return read_changes(bytes, *template_, {});
  }

  std::shared_ptr<const InstanceImage> template_;
};

void change_something(const Sandbox& sandbox, std::mt19937& random) {
  const auto below = [&](uint32_t end) { return static_cast<int32_t>(random() % end); };
  switch (below(11)) {
    case 0: sandbox.call("globals", {below(5)}); break;
    case 1: sandbox.call("grow"); break;
    case 2: sandbox.call("grow table"); break;
    case 3: sandbox.call("set", {below(4), below(2)}); break;
    case 4: sandbox.call("clear", {below(4)}); break;
    case 5: sandbox.call("fill", {below(1'200'000), below(2), below(20'000)}); break;
    case 6: sandbox.call("poke other", {below(65'000), below(256)}); break;
    case 7: sandbox.call("grow typed"); break;
    case 8:
      if (below(4) == 0) sandbox.call("drop");
      break;
    default:
      for (int i = 0; i < 20; ++i) sandbox.call("poke", {below(1'310'000), below(256)});
  }
}

TEST_P(ImageChangesIn, WhateverChangedIsAsItWasInEveryWayToKeepIt) {
  for (uint32_t seed = 0; seed < 30; ++seed) {
    std::mt19937 random(seed);
    auto sandbox = fork(*template_);
    for (int round = 0; round < 8; ++round) {
      for (uint32_t i = random() % 4; i > 0; --i) change_something(*sandbox, random);
      const ImageIdentity identity = sandbox->identity();
      const auto bytes = written(*sandbox), of_whole = written(*sandbox, InstanceImage::Keep::kWhole);
      EXPECT_EQ(bytes, of_whole) << "seed " << seed << " round " << round;
      const auto back = read(bytes);
      ASSERT_TRUE(back) << back.error().message;
      EXPECT_EQ(write_changes(**back, *template_).value(), bytes) << "seed " << seed << " round " << round;
      auto other = fork(**back);
      ASSERT_EQ(other->identity(), identity) << "seed " << seed << " round " << round;
      if (random() % 2 == 0) sandbox = std::move(other);
      else if (random() % 4 == 0) sandbox = fork(*sandbox->image(InstanceImage::Keep::kWhole));
    }
  }
}

TEST_P(ImageChangesIn, NothingIsSaidOfWhatDidNotChange) {
  const auto sandbox = fork(*template_);
  const size_t nothing = written(*sandbox).size();
  sandbox->call("poke", {1'000'000, 42});
  sandbox->call("fill", {300'000, 9, 9000});
  EXPECT_EQ(written(*sandbox).size(), nothing) << "pages that were written to, and are as they were";
  sandbox->call("poke", {1'000'000, 43});
  EXPECT_LT(written(*sandbox).size(), nothing + 8);
}

TEST_P(ImageChangesIn, FunctionsOfTheOutsideAreThoseOfTheNewStore) {
  const auto sandbox = fork(*template_);
  sandbox->call("set", {3, 1});
  sandbox->call("set", {1, 0});
  const auto back = fork(*read(written(*sandbox)).value());
  EXPECT_EQ(back->call("call", {3}), 100u);
  EXPECT_EQ(back->call("call", {1}), 2u);
  EXPECT_EQ(back->call("call", {0}), 1u);
}

TEST_P(ImageChangesIn, BytesThatAreCutAreRefusedWherever) {
  const auto sandbox = fork(*template_);
  std::mt19937 random(1);
  for (int i = 0; i < 20; ++i) change_something(*sandbox, random);
  std::vector<uint8_t> bytes = written(*sandbox);
  for (size_t size = 0; size < bytes.size(); size += size < 200 ? 1 : 37)
    EXPECT_EQ(read(std::span(bytes).first(size)).error().code, ErrorCode::kInvalidInput) << size;
  bytes.push_back(0);
  EXPECT_EQ(read(bytes).error().code, ErrorCode::kInvalidInput);
}

// The bytes of nothing changed but what a field says.
struct Forged {
  std::vector<uint8_t> out;
  template <typename T>
  Forged& put(T value) {
    const auto* const from = reinterpret_cast<const uint8_t*>(&value);
    out.insert(out.end(), from, from + sizeof value);
    return *this;
  }
  Forged& memory(uint32_t pages, std::initializer_list<uint8_t> runs = {},
                 std::initializer_list<uint8_t> content = {}) {
    put(pages).put(uint64_t{runs.size()});
    out.insert(out.end(), runs);
    put(uint64_t{content.size()});
    out.insert(out.end(), content);
    return *this;
  }
  Forged& table(uint32_t size, std::initializer_list<std::pair<uint32_t, uint32_t>> places = {}) {
    put(size).put(static_cast<uint32_t>(places.size()));
    for (const auto& [index, number] : places) put(index).put(number);
    return *this;
  }
  Forged& memories() { return memory(20).memory(1); }
  Forged& tables() { return table(4).table(2); }
  Forged& global(uint32_t index, uint64_t bits, uint64_t high_bits = 0) {
    return put(uint32_t{1}).put(index).put(bits).put(high_bits);
  }
  Forged& nothing(int lists) {
    for (int i = 0; i < lists; ++i) put(uint32_t{0});
    return *this;
  }
};

TEST_P(ImageChangesIn, WhatTheModuleDoesNotAllowIsRefused) {
  const auto code_of = [&](const Forged& forged) {
    const auto image = read(forged.out);
    return image ? ErrorCode::kInternal : image.error().code;
  };
  EXPECT_TRUE(read(Forged().memories().tables().nothing(3).out));
  // Each is like that one but for one thing.
  const auto memory = [](auto... arguments) {
    return Forged().memory(arguments...).memory(1).tables().nothing(3);
  };
  EXPECT_TRUE(read(Forged().memory(20, {5, 1}, {7}).memory(1).tables().nothing(3).out));
  EXPECT_EQ(code_of(memory(19)), ErrorCode::kInvalidInput);
  EXPECT_EQ(code_of(memory(41)), ErrorCode::kInvalidInput);
  EXPECT_EQ(code_of(Forged().memory(20, {5, 2}, {7}).memory(1).tables().nothing(3)),
            ErrorCode::kInvalidInput);
  EXPECT_EQ(code_of(Forged().memory(20, {5, 1}, {7, 8}).memory(1).tables().nothing(3)),
            ErrorCode::kInvalidInput);
  EXPECT_EQ(code_of(Forged().memory(20, {5, 0}, {}).memory(1).tables().nothing(3)), ErrorCode::kInvalidInput);
  EXPECT_EQ(code_of(Forged().memory(20, {5}, {7}).memory(1).tables().nothing(3)), ErrorCode::kInvalidInput);
  EXPECT_EQ(code_of(Forged().memory(20, {0x80, 0x80, 0x80, 0x01, 1}, {7}).memory(1).tables().nothing(3)),
            ErrorCode::kInvalidInput)
      << "beyond the memory";
  EXPECT_EQ(
      code_of(Forged()
                  .memory(20, {1, 1, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01, 1}, {7, 8})
                  .memory(1)
                  .tables()
                  .nothing(3)),
      ErrorCode::kInvalidInput)
      << "a sum that overflows";
  const auto table = [](auto... arguments) {
    return Forged().memories().table(arguments...).table(2).nothing(3);
  };
  EXPECT_EQ(code_of(table(3)), ErrorCode::kInvalidInput);
  EXPECT_EQ(code_of(table(21)), ErrorCode::kInvalidInput);
  EXPECT_EQ(code_of(Forged().memories().table(4, {{4, 1}}).table(2).nothing(3)), ErrorCode::kInvalidInput);
  EXPECT_EQ(code_of(Forged().memories().table(4, {{1, 1}, {1, 1}}).table(2).nothing(3)),
            ErrorCode::kInvalidInput);
  EXPECT_EQ(code_of(Forged().memories().table(4, {{1, 1000}}).table(2).nothing(3)), ErrorCode::kInvalidInput);
  EXPECT_EQ(code_of(Forged().memories().table(4).table(2, {{0, 0}}).nothing(3)), ErrorCode::kInvalidInput)
      << "null where none may be";
  EXPECT_EQ(code_of(Forged().memories().table(4).table(2, {{0, 4}}).nothing(3)), ErrorCode::kInvalidInput)
      << "a function of another type";
  EXPECT_EQ(code_of(Forged().memories().table(4).table(3).nothing(3)), ErrorCode::kInvalidInput)
      << "one more that would be null";
  EXPECT_TRUE(read(Forged().memories().table(4).table(3, {{2, 3}}).nothing(3).out));
  const auto global = [](auto... arguments) {
    return Forged().memories().tables().global(arguments...).nothing(2);
  };
  EXPECT_TRUE(read(global(0u, 9ull).out));
  EXPECT_EQ(code_of(global(0u, 1ull << 32)), ErrorCode::kInvalidInput);
  EXPECT_EQ(code_of(global(0u, 1ull, 1ull)), ErrorCode::kInvalidInput);
  EXPECT_TRUE(read(global(1u, 1ull << 40, 1ull).out));
  EXPECT_EQ(code_of(global(2u, 1000ull)), ErrorCode::kInvalidInput);
  EXPECT_EQ(code_of(global(2u, (1ull << 32) + 1)), ErrorCode::kInvalidInput);
  EXPECT_EQ(code_of(global(3u, 6ull)), ErrorCode::kInvalidInput) << "what the program cannot change";
  EXPECT_EQ(code_of(global(4u, 6ull)), ErrorCode::kInvalidInput);
  const auto segments = [](uint32_t element, uint32_t data) {
    return Forged().memories().tables().nothing(1).put(uint32_t{1}).put(element).put(uint32_t{1}).put(data);
  };
  EXPECT_TRUE(read(segments(1, 1).out));
  EXPECT_EQ(code_of(segments(0, 1)), ErrorCode::kInvalidInput) << "was dropped before";
  EXPECT_EQ(code_of(segments(2, 1)), ErrorCode::kInvalidInput);
  EXPECT_EQ(code_of(segments(1, 2)), ErrorCode::kInvalidInput);
}

TEST_P(ImageChangesIn, WhatIsBeyondTheLimitsIsRefused) {
  const auto beyond =
      read_changes(Forged().memories().table(9).table(2).nothing(3).out, *template_, {.table_elements = 10});
  EXPECT_EQ(beyond.error().code, ErrorCode::kExhausted);
  const auto image = read(Forged().memory(40).memory(1).tables().nothing(3).out);
  ASSERT_TRUE(image);
  Store store;
  const auto made = (*image)->instantiate(store, host_in(store), {.memory_bytes = 30ull << 16});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().kind, LinkError::Kind::kLimit);
}

TEST_P(ImageChangesIn, OnlyWhatBeganWithTheImageIsComparedWithIt) {
  const auto sandbox = fork(*template_);
  Sandbox other;
  auto made =
      other.store.instantiate(compile(kModule, GetParam()), host_in(other.store), {}, {.is_alone = true});
  ASSERT_TRUE(made);
  other.instance = *made;
  EXPECT_EQ(write_changes(*other.image(InstanceImage::Keep::kWhole), *template_).error().code,
            ErrorCode::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Tiers, ImageChangesIn, ::testing::Values(Tier::kInterpreter, Tier::kCompiler),
                         [](const auto& tier) { return std::string(name_of(tier.param)); });

}  // namespace
}  // namespace membrane::engine
