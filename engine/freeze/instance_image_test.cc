// Forks of an instance are as it was, and each is alone.

#include "engine/freeze/instance_image.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <thread>

#include "engine/freeze/image_file.h"
#include "engine/freeze/snapshot.h"
#include "engine/testing/engine_testing.h"
#include "engine/testing/host_testing.h"
#include "wasm/binary.h"
#include "wasm/text/parser.h"

namespace membrane::engine {
namespace {

constexpr uint64_t kPlenty = 10'000'000;

// Counts in a global, in memory, by way of a table that it writes, and asks the host.
constexpr std::string_view kCounter = R"((module
  (type $give (func (result i32)))
  (import "host" "number" (func $number (result i32)))
  (memory (export "memory") 20 40)
  (data (i32.const 66000) "warm")
  (table $t (export "table") 4 10 funcref)
  (elem (i32.const 0) $one $number)
  (elem $passive funcref (ref.func $two) (ref.func $number))
  (global $count (mut i32) (i32.const 0))
  (func $one (result i32) i32.const 1)
  (func $two (result i32) i32.const 2)
  (func (export "warm") (param i32)
    (global.set $count (local.get 0))
    (i32.store (i32.const 1000000) (local.get 0))
    (table.set $t (i32.const 2) (ref.func $two))
    (drop (memory.grow (i32.const 1))))
  (func (export "bump") (result i32)
    (global.set $count (i32.add (global.get $count) (i32.const 1)))
    (i32.store (i32.const 1000000) (i32.add (i32.load (i32.const 1000000)) (i32.const 1)))
    (table.set $t (i32.const 0) (ref.func $two))
    (i32.add (global.get $count) (i32.load (i32.const 1000000))))
  (func (export "call") (param i32) (result i32) (call_indirect $t (type $give) (local.get 0)))
  (func (export "init") (table.init $t $passive (i32.const 0) (i32.const 0) (i32.const 2)))
  (func (export "grow") (param i32) (result i32) (table.grow $t (ref.null func) (local.get 0)))
  (func (export "size") (result i32) (i32.add (memory.size) (table.size $t)))
  (func (export "warm byte") (result i32) (i32.load8_u (i32.const 66000)))))";

Resolver host_in(Store& store, int32_t number) {
  return importing(store, [number](HostCall& call) {
    call.results[0] = static_cast<uint32_t>(number);
    return HostAction::kContinue;
  });
}

// An instance with a Store of its own.
struct Sandbox {
  Store store;
  Instance* instance = nullptr;

  uint64_t call(std::string_view name, std::vector<Value> arguments = {}) const {
    Execution run;
    EXPECT_TRUE(run.start(instance->find_function(name), arguments));
    run.add_fuel(kPlenty);
    EXPECT_EQ(run.resume(), RunState::kFinished) << name;
    return run.results().empty() ? 0 : run.results()[0].bits;
  }
};

class Image : public ::testing::TestWithParam<Tier> {
 protected:
  std::unique_ptr<Sandbox> make(std::string_view text, bool is_alone = true) {
    auto parsed = wasm::parse_text(text);
    EXPECT_TRUE(parsed) << (parsed ? "" : render(parsed.error().front(), text, "test.wat"));
    auto compiled = compile_module(std::move(*parsed), text, GetParam());
    EXPECT_TRUE(compiled);
    auto sandbox = std::make_unique<Sandbox>();
    auto made =
        sandbox->store.instantiate(*compiled, host_in(sandbox->store, 100), {}, {.is_alone = is_alone});
    EXPECT_TRUE(made);
    sandbox->instance = *made;
    return sandbox;
  }
  static std::unique_ptr<Sandbox> fork(const InstanceImage& image, int32_t number) {
    auto sandbox = std::make_unique<Sandbox>();
    auto made = image.instantiate(sandbox->store, host_in(sandbox->store, number), {});
    EXPECT_TRUE(made);
    sandbox->instance = *made;
    return sandbox;
  }
};

TEST_P(Image, AForkIsAsItsTemplateWasAndAlone) {
  const auto first = make(kCounter);
  first->call("warm", {Value::i32(40)});
  const auto image = InstanceImage::capture(*first->instance);
  ASSERT_TRUE(image) << image.error().message;
  for (int32_t round = 0; round < 4; ++round) {
    const auto a = fork(**image, 200 + round), b = fork(**image, 300);
    EXPECT_EQ(a->call("warm byte"), uint64_t{'w'});
    EXPECT_EQ(a->call("size"), 21u + 4u);
    EXPECT_EQ(a->call("bump"), 82u);
    EXPECT_EQ(a->call("bump"), 84u);
    EXPECT_EQ(b->call("bump"), 82u) << "another fork's writes must not be seen";
    EXPECT_EQ(a->call("call", {Value::i32(0)}), 2u);
    EXPECT_EQ(a->call("call", {Value::i32(1)}), 200u + static_cast<uint32_t>(round))
        << "each has its own host";
    EXPECT_EQ(b->call("call", {Value::i32(1)}), 300u);
    EXPECT_EQ(a->call("call", {Value::i32(2)}), 2u);
    a->call("init");
    EXPECT_EQ(a->call("call", {Value::i32(1)}), 200u + static_cast<uint32_t>(round));
    EXPECT_EQ(a->call("grow", {Value::i32(3)}), 4u);
    EXPECT_EQ(b->call("size"), 21u + 4u);
  }
  EXPECT_EQ(first->call("bump"), 82u) << "the template goes on by itself";
  EXPECT_EQ(first->call("call", {Value::i32(1)}), 100u);
}

TEST_P(Image, OfAForkHoldsWhatItTouchedAndWhatItDidNot) {
  const auto first = make(kCounter);
  first->call("warm", {Value::i32(40)});
  auto image = InstanceImage::capture(*first->instance);
  for (uint64_t round = 0; round < 3; ++round) {
    ASSERT_TRUE(image);
    const auto next = fork(**image, 1);
    EXPECT_EQ(next->call("bump"), 82 + 2 * round);
    EXPECT_EQ(next->call("warm byte"), uint64_t{'w'});
    image = InstanceImage::capture(*next->instance);
  }
}

TEST_P(Image, OfWhatAForkChangedIsTheWholeFork) {
  const auto first = make(kCounter);
  first->call("warm", {Value::i32(40)});
  auto image = InstanceImage::capture(*first->instance);
  for (uint64_t round = 0; round < 3; ++round) {
    ASSERT_TRUE(image);
    const auto next = fork(**image, 1);
    EXPECT_EQ(next->call("warm byte"), uint64_t{'w'});
    EXPECT_EQ(next->call("bump"), 82 + 2 * round);
    image = InstanceImage::capture(*next->instance, InstanceImage::Keep::kChanges);
  }
}

TEST_P(Image, AFunctionOfTheOutsideCanBeGivenBackIn) {
  const auto lone = make(R"((module
    (table $t (export "table") 1 funcref)
    (func (export "seven") (result i32) (i32.const 7))
    (func (export "through") (param funcref) (result i32)
      (table.set $t (i32.const 0) (local.get 0))
      (call_indirect $t (result i32) (i32.const 0)))))");
  auto* const seven = lone->instance->find_function("seven");
  EXPECT_EQ(seven, lone->instance->find_function("seven"));
  EXPECT_EQ(lone->call("through", {Value{wasm::ValType::kFuncRef, reinterpret_cast<uint64_t>(seven), 0}}),
            7u);
}

TEST_P(Image, ThereIsNoneOfWhatIsShared) {
  const auto with_others = make("(module (func (export \"f\")))", false);
  EXPECT_EQ(InstanceImage::capture(*with_others->instance).error().code, ErrorCode::kUnsupported);
  const auto with_heap = make("(module (type (struct (field i32))) (func (export \"f\")))");
  EXPECT_EQ(InstanceImage::capture(*with_heap->instance).error().code, ErrorCode::kUnsupported);
}

// An exception that was caught with a reference stays in the Store; who could still have it decides.
TEST_P(Image, AnExceptionThatNobodyCanReachIsLeftOut) {
  const auto text = [](const char* declared, const char* kept) {
    return std::string("(module (tag $e (param i32)) ") + declared + R"(
      (func (export "catch") (param i32) (result i32)
        (local $x exnref)
        (block $caught (result i32 exnref)
          (try_table (catch_ref $e $caught) (throw $e (local.get 0)))
          (unreachable))
        (local.set $x) )" +
           kept + "))";
  };
  const auto first = make(text("", ""));
  EXPECT_EQ(first->call("catch", {Value::i32(7)}), 7u);
  const auto image = InstanceImage::capture(*first->instance);
  ASSERT_TRUE(image) << image.error().message;
  for (int round = 0; round < 2; ++round) {
    const auto child = fork(**image, 1);
    EXPECT_EQ(child->call("catch", {Value::i32(8)}), 8u);
    EXPECT_TRUE(InstanceImage::capture(*child->instance));
  }

  for (const auto& [declared, kept] :
       {std::pair("(global $g (mut exnref) (ref.null exn))", "(global.set $g (local.get $x))"),
        std::pair("(table $t 1 exnref)", "(table.set $t (i32.const 0) (local.get $x))")}) {
    const auto holding = make(text(declared, kept));
    EXPECT_TRUE(InstanceImage::capture(*holding->instance)) << "it has none so far";
    holding->call("catch", {Value::i32(7)});
    EXPECT_EQ(InstanceImage::capture(*holding->instance).error().code, ErrorCode::kUnsupported);
  }
}

TEST_P(Image, ATableBeyondTheLimitIsRefused) {
  const auto first = make(kCounter);
  first->call("grow", {Value::i32(5)});
  const auto image = InstanceImage::capture(*first->instance);
  ASSERT_TRUE(image);
  Store store;
  const auto refused = (*image)->instantiate(store, host_in(store, 1), {.table_elements = 8});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, LinkError::Kind::kLimit);
}

// -- with a run in it ----------------------------------------------------------------------------------------------

// Waits in a call of the host, with a local, an operand and a reference in its frames; then adds what it was given.
constexpr std::string_view kWaiter = R"((module
  (import "host" "number" (func $number (result i32)))
  (memory 1)
  (table $t 1 funcref)
  (func $two (result i32) i32.const 2)
  (elem declare func $two)
  (func $wait (param $a i32) (param $f funcref) (result i32)
    (i32.store (i32.const 8) (i32.const 1000))
    (i32.add (local.get $a) (i32.add (i32.load (i32.const 8)) (call $number)))
    (table.set $t (i32.const 0) (local.get $f)))
  (func (export "run") (param $from i32) (result i32) (local $sum i32)
    (loop $more
      (local.set $sum (i32.add (local.get $sum) (call $wait (local.get $from) (ref.func $two))))
      (local.set $sum (i32.add (local.get $sum) (call_indirect $t (result i32) (i32.const 0))))
      (br_if $more (i32.lt_u (local.get $sum) (i32.const 3000))))
    (local.get $sum))))";

// The host's function waits until it is given a number.
Resolver waiting_host_in(Store& store, const std::optional<int32_t>& number) {
  return importing(store, [&number](HostCall& call) {
    if (!number) return HostAction::kOutOfFuel;
    call.results[0] = static_cast<uint32_t>(*number);
    return HostAction::kContinue;
  });
}

class Waiting : public Image {
 protected:
  void SetUp() override {
    auto parsed = wasm::parse_text(kWaiter);
    ASSERT_TRUE(parsed) << render(parsed.error().front(), kWaiter, "test.wat");
    auto compiled = compile_module(std::move(*parsed), kWaiter, GetParam());
    ASSERT_TRUE(compiled);
    auto made =
        first_.store.instantiate(*compiled, waiting_host_in(first_.store, number_), {}, {.is_alone = true});
    ASSERT_TRUE(made);
    first_.instance = *made;
    ASSERT_TRUE(run_.start(first_.instance->find_function("run"), std::array{Value::i32(10)}));
    run_.add_fuel(kPlenty);
    ASSERT_EQ(run_.resume(), RunState::kOutOfFuel);
    auto image = InstanceImage::capture(*first_.instance);
    ASSERT_TRUE(image) << image.error().message;
    image_ = *image;
    known_ = std::make_unique<KnownPlaces>(image_->module());
    auto frames = freeze_frames(run_, *first_.instance, *known_);
    ASSERT_TRUE(frames) << frames.error().message;
    frames_ = *frames;
  }

  std::optional<int32_t> number_;
  Sandbox first_;
  Execution run_;
  std::shared_ptr<const InstanceImage> image_;
  std::unique_ptr<KnownPlaces> known_;
  std::vector<uint8_t> frames_;
};

TEST_P(Waiting, ForksGoOnFromWhereTheRunWaits) {
  for (const int32_t given : {100, 1, 100}) {
    std::optional<int32_t> number;
    Sandbox fork;
    auto made = image_->instantiate(fork.store, waiting_host_in(fork.store, number), {});
    ASSERT_TRUE(made);
    Execution run;
    run.add_fuel(kPlenty);
    ASSERT_TRUE(thaw_frames(frames_, run, **made, *known_));
    EXPECT_EQ(run.resume(), RunState::kOutOfFuel) << "the call is made again";
    EXPECT_EQ(run.fuel_used(), 0u) << "and nothing is paid for it";
    number = given;
    ASSERT_EQ(run.resume(), RunState::kFinished);
    EXPECT_EQ(run.results()[0].bits, given == 100 ? 3u * (10 + 1000 + 100 + 2) : 3u * (10 + 1000 + 1 + 2));
  }
  number_ = 100;
  ASSERT_EQ(run_.resume(), RunState::kFinished) << "the first goes on by itself";
  EXPECT_EQ(run_.results()[0].bits, 3u * 1112);
}

TEST_P(Waiting, FramesThatAreCutOrOfAnotherModuleAreRefused) {
  Sandbox fork;
  auto made = image_->instantiate(fork.store, waiting_host_in(fork.store, number_), {});
  ASSERT_TRUE(made);
  for (size_t length = 0; length < frames_.size(); ++length) {
    Execution run;
    EXPECT_FALSE(thaw_frames({frames_.data(), length}, run, **made, *known_)) << length;
  }
  std::vector<uint8_t> longer = frames_;
  longer.push_back(0);
  Execution run;
  EXPECT_EQ(thaw_frames(longer, run, **made, *known_).error().code, ErrorCode::kInvalidInput);
  const auto other = make(kCounter);
  EXPECT_EQ(thaw_frames(frames_, run, *other->instance, *known_).error().code, ErrorCode::kInvalidInput);
  KnownPlaces of_other(other->instance->share_compiled());
  EXPECT_EQ(thaw_frames(frames_, run, *other->instance, of_other).error().code, ErrorCode::kInvalidInput);
}

TEST_P(Waiting, OnlyAPausedRunHasFramesToKeep) {
  number_ = 100;
  ASSERT_EQ(run_.resume(), RunState::kFinished);
  EXPECT_EQ(freeze_frames(run_, *first_.instance, *known_).error().code, ErrorCode::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Tiers, Waiting, ::testing::Values(Tier::kInterpreter, Tier::kCompiler, Tier::kAuto),
                         [](const auto& tier) { return std::string(name_of(tier.param)); });

// -- in a file -----------------------------------------------------------------------------------------------------

class ImageInAFile : public Image {
 protected:
  void SetUp() override {
    path_ = ::testing::TempDir() + "membrane-image-" + std::to_string(getpid()) + "-" +
            std::string(name_of(GetParam()));
    write(kCounter);
  }
  // The file of an instance whose "warm" has run.
  void write(std::string_view text) const {
    auto parsed = wasm::parse_text(text);
    ASSERT_TRUE(parsed) << render(parsed.error().front(), text, "test.wat");
    auto decoded = wasm::decode(wasm::encode(*parsed));  // only a binary is kept
    ASSERT_TRUE(decoded);
    auto compiled = compile_module(std::move(*decoded), {}, GetParam());
    ASSERT_TRUE(compiled);
    Sandbox first;
    auto made = first.store.instantiate(*compiled, host_in(first.store, 100), {}, {.is_alone = true});
    ASSERT_TRUE(made);
    first.instance = *made;
    first.call("warm", {Value::i32(40)});
    const auto image = InstanceImage::capture(*first.instance);
    ASSERT_TRUE(image);
    const auto written =
        write_image_file(path_, **image, std::array<uint8_t, 3>{1, 2, 3}, std::array<uint8_t, 2>{8, 9});
    ASSERT_TRUE(written) << written.error().message;
  }
  void TearDown() override {
    unlink(path_.c_str());
    unlink(seal_path_of(path_).c_str());
  }

  void change_byte(size_t at) const {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const auto byte = static_cast<char>(file.get() ^ 1);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(byte);
  }

  std::string path_;
};

TEST_P(ImageInAFile, IsAsItWas) {
  for (const Tier tier : {GetParam(), Tier::kInterpreter}) {
    auto loaded = load_image_file(path_, tier);
    ASSERT_TRUE(loaded) << loaded.error().message;
    EXPECT_EQ(loaded->embedder, (std::vector<uint8_t>{1, 2, 3}));
    ASSERT_NE(loaded->attachment, nullptr);
    EXPECT_TRUE(std::ranges::equal(loaded->attachment->bytes(), std::array<uint8_t, 2>{8, 9}));
    for (int round = 0; round < 3; ++round) {
      const auto a = fork(*loaded->image, 200);
      EXPECT_EQ(a->call("warm byte"), uint64_t{'w'});
      EXPECT_EQ(a->call("size"), 21u + 4u);
      EXPECT_EQ(a->call("bump"), 82u);
      EXPECT_EQ(a->call("call", {Value::i32(1)}), 200u);
      EXPECT_EQ(a->call("call", {Value::i32(2)}), 2u);
      a->call("init");
      EXPECT_EQ(a->call("call", {Value::i32(0)}), 2u);
    }
    // And what is loaded can be captured and kept again.
    const auto next = fork(*loaded->image, 300);
    next->call("bump");
    const auto image = InstanceImage::capture(*next->instance);
    ASSERT_TRUE(image);
    ASSERT_TRUE(write_image_file(path_ + "2", **image, {}));
    auto again = load_image_file(path_ + "2", tier);
    ASSERT_TRUE(again);
    EXPECT_EQ(again->attachment, nullptr);
    EXPECT_EQ(fork(*again->image, 1)->call("bump"), 84u);
    unlink((path_ + "2").c_str());
  }
}

TEST_P(ImageInAFile, HasTheIdentityOfWhatItHolds) {
  const auto identity = [&] {
    const auto loaded = load_image_file(path_, GetParam());
    return loaded ? loaded->image->identity().value() : ImageIdentity{};
  };
  const ImageIdentity first = identity();
  EXPECT_NE(first, ImageIdentity{});
  write(kCounter);
  EXPECT_EQ(identity(), first) << "made again, it is the same";
  const auto loaded = load_image_file(path_, GetParam());
  EXPECT_EQ(InstanceImage::capture(*fork(*loaded->image, 1)->instance).value()->identity().value(), first);
  std::string other(kCounter);
  other.replace(other.find("i32.const 1)"), 12, "i32.const 3)");
  write(other);
  EXPECT_NE(identity(), first);
}

TEST_P(ImageInAFile, KeepsWhichPagesForksHaveChanged) {
  auto loaded = load_image_file(path_, GetParam());
  ASSERT_TRUE(loaded);
  auto changing = fork(*loaded->image, 1);
  const auto image = changing->instance->memory()->image();
  ASSERT_NE(image, nullptr);
  EXPECT_TRUE(image->learned().empty());
  changing->call("bump");
  changing.reset();
  const auto learned = image->learned();
  if (learned.empty()) GTEST_SKIP() << "the system does not say which pages changed";
  ASSERT_TRUE(write_image_file(path_, *loaded->image, {}));
  auto again = load_image_file(path_, GetParam());
  ASSERT_TRUE(again);
  const auto next = fork(*again->image, 1);
  EXPECT_EQ(next->instance->memory()->image()->learned(), learned);
  EXPECT_EQ(next->call("bump"), 82u);
}

TEST_P(ImageInAFile, StaysWhatItIsWhenTheFileGoes) {
  auto loaded = load_image_file(path_, GetParam());
  ASSERT_TRUE(loaded);
  unlink(path_.c_str());
  EXPECT_EQ(fork(*loaded->image, 1)->call("bump"), 82u);
}

// Functions of a module that is loaded are made when they are first reached. Each way leads to a function of its own;
// two of them are beyond the compiler.
std::string functions_by_all_ways() {
  std::string many_locals = "(local";
  for (int i = 0; i < 4'100; ++i) many_locals += " i64";
  many_locals += ")";
  std::string text = R"((module
    (type $give (func (result i32)))
    (import "host" "number" (func $number (result i32)))
    (memory 1)
    (table $t 8 funcref)
    (elem (i32.const 0) $by_table $by_tail_table $host_way $by_table_get)
    (elem declare func $by_reference $by_tail_reference)
    (global $held (mut funcref) (ref.func $by_global))
    (func $by_call (result i32) i32.const 1)
    (func $by_table (result i32) i32.const 2)
    (func $by_tail_table (result i32) (call $by_call))
    (func $host_way (result i32) (call $number))
    (func $by_reference (result i32) i32.const 3)
    (func $by_tail_reference (result i32) i32.const 4)
    (func $by_global (result i32) i32.const 5)
    (func $by_table_get (result i32) i32.const 6)
    (func $beyond (result i32) LOCALS i32.const 7)
    (func $beyond_too (result i32) LOCALS (call $by_tail_call))
    (func $by_tail_call (result i32) i32.const 8)
    (func (export "warm") (param i32))
    (func (export "call") (result i32) (call $by_call))
    (func (export "tail call") (result i32) (return_call $by_tail_call))
    (func (export "table") (result i32) (call_indirect $t (type $give) (i32.const 0)))
    (func (export "tail table") (result i32) (return_call_indirect $t (type $give) (i32.const 1)))
    (func (export "host way") (result i32) (call_indirect $t (type $give) (i32.const 2)))
    (func (export "reference") (result i32) (call_ref $give (ref.func $by_reference)))
    (func (export "tail reference") (result i32) (return_call_ref $give (ref.func $by_tail_reference)))
    (func (export "global") (result i32)
      (table.set $t (i32.const 7) (global.get $held)) (call_indirect $t (type $give) (i32.const 7)))
    (func (export "table get") (result i32)
      (table.set $t (i32.const 6) (table.get $t (i32.const 3))) (call_indirect $t (type $give) (i32.const 6)))
    (func (export "beyond") (result i32) (call $beyond))
    (func (export "beyond too") (result i32) (return_call $beyond_too))))";
  for (size_t at = 0; (at = text.find("LOCALS")) != std::string::npos;) text.replace(at, 6, many_locals);
  return text;
}
constexpr std::pair<const char*, uint64_t> kWays[] = {
    {"call", 1},   {"tail call", 8}, {"table", 2},  {"tail table", 1}, {"host way", 200},    {"reference", 3},
    {"global", 5}, {"table get", 6}, {"beyond", 7}, {"beyond too", 8}, {"tail reference", 4}};

TEST_P(ImageInAFile, EveryWayToAFunctionFindsIt) {
  write(functions_by_all_ways());
  for (const auto& [way, expected] : kWays) {
    auto loaded = load_image_file(path_, GetParam());  // where none was reached
    ASSERT_TRUE(loaded);
    for (int round = 0; round < 2; ++round) EXPECT_EQ(fork(*loaded->image, 200)->call(way), expected) << way;
  }
}

TEST_P(ImageInAFile, ForksInSeveralThreadsComeToTheSameFunctions) {
  write(functions_by_all_ways());
  for (int round = 0; round < 20; ++round) {
    auto loaded = load_image_file(path_, GetParam());
    ASSERT_TRUE(loaded);
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&] {
        const auto own = fork(*loaded->image, 200);
        for (const auto& [way, expected] : kWays) EXPECT_EQ(own->call(way), expected) << way;
      });
  }
}

TEST_P(ImageInAFile, NoByteOfItCanBeOtherWithoutARefusal) {
  struct stat status{};
  ASSERT_EQ(stat(path_.c_str(), &status), 0);
  const auto bytes = static_cast<size_t>(status.st_size);
  constexpr size_t kFrontBytes = 600, kStep = 4099;
  for (size_t at = 0; at < bytes; at += at < kFrontBytes ? 7 : kStep) {
    change_byte(at);
    const auto loaded = load_image_file(path_, GetParam());
    ASSERT_FALSE(loaded) << at;
    EXPECT_TRUE(loaded.error().code == ErrorCode::kInvalidInput ||
                loaded.error().code == ErrorCode::kUnsupported)
        << at << ": " << loaded.error().message;
    EXPECT_FALSE(loaded.error().hint.empty());
    change_byte(at);
  }
  change_byte(bytes - 1);
  EXPECT_FALSE(load_image_file(path_, GetParam()));
  change_byte(bytes - 1);
  EXPECT_TRUE(load_image_file(path_, GetParam()));
}

// What was checked once is not read again, until it changes.
TEST_P(ImageInAFile, OneThatIsSealedIsCheckedAgainWhenItWasWrittenTo) {
  constexpr int64_t kLaterNs = 60'000'000'000;
  ASSERT_TRUE(load_image_file(path_, GetParam(), real_time_ns() + kLaterNs));
  struct stat before{}, after{};
  ASSERT_EQ(stat(path_.c_str(), &before), 0);
  if (stat(seal_path_of(path_).c_str(), &after) != 0) GTEST_SKIP() << "the system has no number of its start";
  ASSERT_TRUE(load_image_file(path_, GetParam()));
  const auto last = static_cast<size_t>(before.st_size) - 1;
  do {  // until the clock of the file system has moved
    change_byte(last);
    change_byte(last);
    ASSERT_EQ(stat(path_.c_str(), &after), 0);
  } while (after.st_ctim.tv_nsec == before.st_ctim.tv_nsec && after.st_ctim.tv_sec == before.st_ctim.tv_sec);
  EXPECT_TRUE(load_image_file(path_, GetParam())) << "it is as it was";
  change_byte(last);
  EXPECT_EQ(load_image_file(path_, GetParam()).error().code, ErrorCode::kInvalidInput);
}

// With right checksums, as nobody but the user can forge them: what is out of bounds is still refused.
TEST_P(ImageInAFile, OffsetsAndIndicesBeyondTheirBoundsAreRefused) {
  constexpr size_t kFileBytesAt = 120, kStateAt = 128, kFunctionsAt = 144, kCodeAt = 240;
  const auto forged = [&](size_t at, uint64_t value) {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    uint64_t before = 0;
    file.seekg(static_cast<std::streamoff>(at));
    file.read(reinterpret_cast<char*>(&before), sizeof before);
    file.seekp(static_cast<std::streamoff>(at));
    file.write(reinterpret_cast<const char*>(&value), sizeof value).flush();
    return before;
  };
  const auto repair = [&] {
    const int file = open(path_.c_str(), O_RDWR | O_CLOEXEC);
    const bool done = repair_image_checksums(file).has_value();
    close(file);
    return done;
  };
  for (size_t at = kFileBytesAt; at <= kCodeAt + 8; at += 8)
    for (const uint64_t wild : {UINT64_MAX, uint64_t{1} << 40, uint64_t{1} << 63, uint64_t{3}}) {
      const uint64_t before = forged(at, wild);
      static_cast<void>(repair());
      const auto loaded = load_image_file(path_, GetParam());
      EXPECT_TRUE(!loaded || at > kCodeAt || (GetParam() == Tier::kInterpreter && at == kCodeAt)) << at;
      forged(at, before);
      ASSERT_TRUE(repair());
      ASSERT_TRUE(load_image_file(path_, GetParam())) << at;
    }
  uint64_t functions = 0, state = 0;
  {
    std::ifstream file(path_, std::ios::binary);
    file.seekg(kFunctionsAt);
    file.read(reinterpret_cast<char*>(&functions), sizeof functions);
    file.seekg(kStateAt);
    file.read(reinterpret_cast<char*>(&state), sizeof state);
  }
  // A function's type, and the number of a memory's pages.
  for (const size_t at :
       {static_cast<size_t>(functions) + 2 * sizeof(wasm::Function), static_cast<size_t>(state) + 8}) {
    const uint64_t before = forged(at, 0xFFFF'FFFF'0000'FFFF);
    ASSERT_TRUE(repair());
    EXPECT_EQ(load_image_file(path_, GetParam()).error().code, ErrorCode::kInvalidInput) << at;
    forged(at, before);
    ASSERT_TRUE(repair());
  }
  EXPECT_TRUE(load_image_file(path_, GetParam()));
}

TEST_P(ImageInAFile, OneThatIsCutOrOfOthersIsRefused) {
  EXPECT_EQ(load_image_file(path_ + "-none").error().code, ErrorCode::kNotFound);
  ASSERT_EQ(link(path_.c_str(), (path_ + "-second").c_str()), 0);
  EXPECT_EQ(load_image_file(path_, GetParam()).error().code, ErrorCode::kNotFound);
  ASSERT_EQ(unlink((path_ + "-second").c_str()), 0);
  ASSERT_TRUE(load_image_file(path_, GetParam()));
  ASSERT_EQ(truncate(path_.c_str(), 5000), 0);
  EXPECT_EQ(load_image_file(path_, GetParam()).error().code, ErrorCode::kInvalidInput);
  ASSERT_EQ(truncate(path_.c_str(), 50), 0);
  EXPECT_EQ(load_image_file(path_, GetParam()).error().code, ErrorCode::kInvalidInput);
  ASSERT_EQ(chmod(path_.c_str(), 0666), 0);
  EXPECT_EQ(load_image_file(path_, GetParam()).error().code, ErrorCode::kNotFound);
}

INSTANTIATE_TEST_SUITE_P(Tiers, ImageInAFile,
                         ::testing::Values(Tier::kInterpreter, Tier::kCompiler, Tier::kAuto),
                         [](const auto& tier) { return std::string(name_of(tier.param)); });
INSTANTIATE_TEST_SUITE_P(Tiers, Image, ::testing::Values(Tier::kInterpreter, Tier::kCompiler, Tier::kAuto),
                         [](const auto& tier) { return std::string(name_of(tier.param)); });

}  // namespace
}  // namespace membrane::engine
