// Programs in WebAssembly that wait for an answer, in the faces of C++ and C: dumped in one process, resumed in another.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "membrane/membrane.h"
#include "membrane/membrane.hpp"

namespace membrane {
namespace {

namespace fs = std::filesystem;

using Bytes = std::vector<uint8_t>;

// Calls shop.price with a string and each kind of number, and prints the string that shop.label gives.
constexpr const char* kOrder = R"((import "shop" "price" (func $price (param i32 i64 f32 f64) (result f64)))
(import "shop" "label" (func $label (param i32) (result i32)))
(memory (export "memory") 1)
(global $orders (mut i32) (i32.const 0))
(func (export "run") (result f64) (local $i i32) (local $sum f64)
  (loop $l
    (local.set $sum (f64.add (local.get $sum)
      (call $price (string "tea") (i64.extend_i32_u (local.get $i)) (f32.const 0.5) (f64.const -2))))
    (global.set $orders (i32.add (global.get $orders) (i32.const 1)))
    (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 3))))
  (call $io.print (call $label (global.get $orders)))
  (local.get $sum)))";

HostFunction price(bool waits) {
  const Signature signature{{ValueType::kI32, ValueType::kI64, ValueType::kF32, ValueType::kF64},
                            {ValueType::kF64}};
  return {"shop", "price", signature, [=](HostCall& call) -> HostResults {
            EXPECT_TRUE(call.charge(10));
            if (waits)
              call.answer_later(std::string(*call.read_string(std::get<int32_t>(call.arguments()[0]))));
            return std::vector<Value>{3.5 + static_cast<double>(std::get<int64_t>(call.arguments()[1]))};
          }};
}

HostResults labelled(HostCall& call) {
  const auto address = call.write_string("order " + std::to_string(std::get<int32_t>(call.arguments()[0])));
  if (!address) return std::unexpected("no room");
  return std::vector<Value>{*address};
}

HostFunction label(bool waits) {
  return {"shop", "label", {{ValueType::kI32}, {ValueType::kI32}}, [=](HostCall& call) -> HostResults {
            if (!waits) return labelled(call);
            call.answer_later();
            return {};
          }};
}

Sandbox shop(bool waits) {
  Sandbox sandbox{Policy()};
  EXPECT_TRUE(sandbox.define(price(waits)));
  EXPECT_TRUE(sandbox.define(label(waits)));
  return sandbox;
}

Report answered(const Sandbox& sandbox, const Bytes& bytes, const Report::Waiting& call) {
  if (call.name == "shop.label") return sandbox.resume(bytes, labelled);
  return sandbox.resume(bytes,
                        std::vector<Value>{3.5 + static_cast<double>(std::get<int64_t>(call.values[1]))});
}

std::string seen_of(const Report& report) {
  std::string seen = std::string(name_of(report.outcome)) + "|" + report.stdout_text + "|" +
                     std::to_string(report.fuel_used) + "|" + std::to_string(report.memory_peak_bytes);
  for (const Report::Result& result : report.results) seen += "|" + result.text;
  for (const Report::Call& call : report.host_calls) seen += "|" + call.name + call.error;
  for (const Failure& failure : report.failures) seen += "|" + failure.code + failure.message;
  return seen;
}

// -- another process ------------------------------------------------------------------------------

constexpr const char* kGiven = "MEMBRANE_WAITING_TEST";

// The bytes that this process was started with by in_another(); nothing in the first one.
std::optional<Bytes> given() {
  const char* const file = std::getenv(kGiven);
  if (file == nullptr) return std::nullopt;
  std::ifstream in(file, std::ios::binary);
  return Bytes((std::istreambuf_iterator<char>(in)), {});
}

void say(const std::string& text) { std::ofstream(std::string(std::getenv(kGiven)) + ".out") << text; }

// What the same test says in a new process that is given the bytes.
std::string in_another(const Bytes& bytes) {
  const auto* const test = ::testing::UnitTest::GetInstance()->current_test_info();
  const fs::path file = fs::path(::testing::TempDir()) / ("waiting-" + std::to_string(getpid()));
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  std::string filter = std::string("--gtest_filter=") + test->test_suite_name() + "." + test->name();
  std::string program = fs::read_symlink("/proc/self/exe");
  const char* const mine = std::getenv(kGiven);
  const std::string before = mine == nullptr ? "" : mine;
  char* arguments[] = {program.data(), filter.data(), nullptr};
  EXPECT_EQ(setenv(kGiven, file.c_str(), 1), 0);
  pid_t other = 0;
  EXPECT_EQ(posix_spawn(&other, program.c_str(), nullptr, nullptr, arguments, environ), 0);
  if (mine == nullptr) unsetenv(kGiven);
  else setenv(kGiven, before.c_str(), 1);
  int status = 0;
  EXPECT_EQ(waitpid(other, &status, 0), other);
  EXPECT_EQ(status, 0);
  std::ifstream out(file.string() + ".out");
  std::string said((std::istreambuf_iterator<char>(out)), {});
  fs::remove(file);
  fs::remove(file.string() + ".out");
  return said;
}

// -- C++ ------------------------------------------------------------------------------------------

TEST(SandboxWaits, EachAnswerInAProcessOfItsOwn) {
  const Sandbox sandbox = shop(true);
  if (const auto bytes = given()) {
    const Report waiting = sandbox.thaw(*bytes);
    ASSERT_EQ(waiting.outcome, Outcome::kWaiting) << waiting.to_text();
    EXPECT_EQ(waiting.snapshot, *bytes);
    const Report next = answered(sandbox, *bytes, waiting.waits_for.at(0));
    say(next.outcome == Outcome::kWaiting ? in_another(next.snapshot) : seen_of(next));
    return;
  }
  const Report waiting = sandbox.run({.source = kOrder});
  ASSERT_EQ(waiting.outcome, Outcome::kWaiting) << waiting.to_text();
  ASSERT_EQ(waiting.waits_for.size(), 1u);
  const Report::Waiting& call = waiting.waits_for[0];
  EXPECT_EQ(call.name, "shop.price");
  EXPECT_EQ(call.note, "tea");
  ASSERT_EQ(call.values.size(), 4u);
  EXPECT_EQ(std::vector(call.values.begin() + 1, call.values.end()),
            (std::vector<Value>{int64_t{0}, 0.5f, -2.0}));
  EXPECT_TRUE(waiting.failures.empty());
  const Report whole = shop(false).run({.source = kOrder});
  ASSERT_EQ(whole.outcome, Outcome::kOk) << whole.to_text();
  EXPECT_EQ(whole.stdout_text, "order 3");
  EXPECT_EQ(in_another(waiting.snapshot), seen_of(whole));
}

TEST(SandboxWaits, AnErrorTrapsWithItsMessage) {
  const Report waiting = shop(true).run({.source = kOrder});
  const Report failed = shop(true).resume(waiting.snapshot, std::unexpected("sold out"));
  EXPECT_EQ(failed.outcome, Outcome::kTrapped);
  EXPECT_EQ(failed.failures.at(0).message, "shop.price: sold out");
}

TEST(SandboxWaits, AnAnswerOfOtherTypesIsRefusedAndTheBytesStayGood) {
  const Sandbox sandbox = shop(true);
  const Report waiting = sandbox.run({.source = kOrder});
  const Report refused = sandbox.resume(waiting.snapshot, std::vector<Value>{int32_t{3}});
  EXPECT_EQ(refused.outcome, Outcome::kInvalid);
  EXPECT_EQ(refused.failures.at(0).code, "invalid_argument");
  EXPECT_EQ(sandbox.resume(waiting.snapshot, std::vector<Value>{3.0}).outcome, Outcome::kWaiting);
  EXPECT_EQ(sandbox.resume(waiting.snapshot, std::function<HostResults(HostCall&)>()).outcome,
            Outcome::kTrapped);
}

// -- calls of an instance ----------------------------------------------------------------------------

constexpr const char* kKeeps = R"((import "own" "f" (func $f (param i32) (result i32)))
(memory (export "memory") 1)
(global $calls (mut i32) (i32.const 0))
(func (export "calls") (result i32) (global.get $calls))
(func $inner (param i32) (result i32) (return_call $f (local.get 0)))
(func (export "run") (param i32) (result i32)
  (i32.store (i32.const 16) (call $f (local.get 0)))
  (global.set $calls (i32.add (global.get $calls) (i32.const 1)))
  (i32.add (i32.load (i32.const 16)) (call $inner (i32.const 5)))))";

InstanceOptions with_f(bool waits) {
  InstanceOptions options;
  options.functions.push_back(
      {"own", "f", {{ValueType::kI32}, {ValueType::kI32}}, [=](HostCall& call) -> HostResults {
         if (!call.charge(7)) return {};
         if (waits) call.answer_later("job");
         return std::vector<Value>{10 * std::get<int32_t>(call.arguments()[0])};
       }});
  return options;
}

Instance keeps(bool waits) {
  const auto module = Module::compile(kKeeps);
  EXPECT_TRUE(module);
  return std::move(*Instance::create(*module, with_f(waits)));
}

HostResults tenfold(const Call& call) {
  return std::vector<Value>{10 * std::get<int32_t>(call.waits_for()->values.at(0))};
}

TEST(CallWaits, ContinuesInTheSameProcess) {
  Instance at_once = keeps(false), later = keeps(true);
  const auto whole = at_once.call("run", {4}, 1000);
  ASSERT_TRUE(whole);
  auto call = later.call("run", {4}, 1000);
  ASSERT_TRUE(call);
  for (const int32_t argument : {4, 5}) {
    ASSERT_EQ(call->status(), Call::Status::kWaiting);
    EXPECT_EQ(call->resume(), Call::Status::kWaiting) << "only an answer ends the wait";
    const auto waits_for = call->waits_for();
    ASSERT_TRUE(waits_for);
    EXPECT_EQ(waits_for->name, "own.f");
    EXPECT_EQ(waits_for->values, std::vector<Value>{argument});
    EXPECT_EQ(waits_for->note, "job");
    EXPECT_EQ(call->failure().code, "waiting");
    EXPECT_EQ(call->answer(std::vector<Value>{1.0}).error().code, "invalid_argument");
    ASSERT_TRUE(call->answer(tenfold(*call)));
  }
  EXPECT_EQ(call->status(), Call::Status::kReturned);
  EXPECT_EQ(call->results(), whole->results());
  EXPECT_EQ(call->fuel_used(), whole->fuel_used());
  EXPECT_FALSE(call->waits_for());
  EXPECT_FALSE(call->answer(std::vector<Value>{1}));
}

TEST(CallWaits, OtherCallsOfTheInstanceRunMeanwhile) {
  Instance instance = keeps(true);
  auto first = instance.call("run", {1}, 1000), second = instance.call("run", {2}, 1000);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(instance.call("calls", {}, 1000)->results(), std::vector<Value>{0});
  for (Call* const call : {&*second, &*first, &*first, &*second}) ASSERT_TRUE(call->answer(tenfold(*call)));
  EXPECT_EQ(first->results(), std::vector<Value>{60});
  EXPECT_EQ(second->results(), std::vector<Value>{70});
  EXPECT_EQ(instance.call("calls", {}, 1000)->results(), std::vector<Value>{2});
}

TEST(CallWaits, EachAnswerInAProcessOfItsOwn) {
  const auto described = [](Call& call) {
    std::string text = std::to_string(call.fuel_used());
    for (const Value& value : call.results()) text += " " + std::to_string(std::get<int32_t>(value));
    auto instance = call.instance();
    return text + " " + std::to_string(std::get<int32_t>(instance.call("calls", {}, 100)->results()[0])) +
           std::to_string(instance.memory()[16]);
  };
  if (const auto bytes = given()) {
    auto call = Call::load(*bytes, with_f(true), 1000);
    ASSERT_TRUE(call) << call.error().message;
    ASSERT_EQ(call->status(), Call::Status::kWaiting);
    EXPECT_EQ(call->waits_for()->note, "job");
    EXPECT_EQ(*call->dump(), *bytes);
    const auto status = call->answer(tenfold(*call));
    ASSERT_TRUE(status);
    say(*status == Call::Status::kWaiting ? in_another(*call->dump()) : described(*call));
    return;
  }
  Instance at_once = keeps(false), later = keeps(true);
  auto whole = at_once.call("run", {4}, 1000);
  ASSERT_EQ(whole->status(), Call::Status::kReturned);
  const auto waiting = later.call("run", {4}, 1000);
  const auto bytes = waiting->dump();
  ASSERT_TRUE(bytes) << bytes.error().message;
  EXPECT_EQ(in_another(*bytes), described(*whole));
}

TEST(CallWaits, AnAnswerThatCannotBePaidKeepsItWaiting) {
  Instance instance = keeps(true);
  auto call = instance.call("run", {4}, 1000);
  const std::function<HostResults(HostCall&)> dear = [](HostCall& host) -> HostResults {
    if (!host.charge(5000)) return {};
    return std::vector<Value>{3};
  };
  ASSERT_TRUE(call->answer(dear));
  EXPECT_EQ(call->status(), Call::Status::kWaiting);
  EXPECT_EQ(call->failure().code, "out_of_fuel");
  call->add_fuel(6000);
  EXPECT_EQ(call->status(), Call::Status::kWaiting);
  EXPECT_EQ(call->resume(), Call::Status::kWaiting);
  ASSERT_TRUE(call->answer(dear));
  EXPECT_EQ(call->waits_for()->values, std::vector<Value>{5}) << "the next call";
  ASSERT_TRUE(call->answer(std::unexpected("no")));
  EXPECT_EQ(call->status(), Call::Status::kTrapped);
  EXPECT_EQ(call->failure().message, "own.f: no");
}

TEST(CallWaits, PausedCallsAreDumpedToo) {
  Instance instance = keeps(false);
  auto whole = instance.call("run", {4}, 1000);
  auto paused = instance.call("run", {4}, 10);
  ASSERT_EQ(paused->status(), Call::Status::kOutOfFuel);
  const auto bytes = paused->dump();
  ASSERT_TRUE(bytes) << bytes.error().message;
  auto loaded = Call::load(*bytes, with_f(false), 1000);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->resume(), Call::Status::kReturned);
  EXPECT_EQ(loaded->results(), whole->results());
  EXPECT_EQ(loaded->fuel_used(), whole->fuel_used());
}

TEST(CallWaits, ReportsWhatCannotBeDumpedOrLoaded) {
  Instance instance = keeps(true);
  EXPECT_FALSE(instance.call("calls", {}, 100)->dump()) << "it has ended";
  const auto call = instance.call("run", {4}, 1000);
  const auto bytes = call->dump();
  ASSERT_TRUE(bytes);
  const std::string without = Call::load(*bytes, {}, 0).error().message;
  EXPECT_NE(without.find("\"own\" \"f\""), std::string::npos) << without;
  InstanceOptions small = with_f(true);
  small.memory_bytes = 100;
  EXPECT_FALSE(Call::load(*bytes, small, 0));
  for (size_t i = 0; i < bytes->size(); i += 5) {
    Bytes flipped = *bytes;
    flipped[i] ^= 4;
    EXPECT_FALSE(Call::load(flipped, with_f(true), 0)) << i;
    EXPECT_FALSE(Call::load(std::span(*bytes).first(i), with_f(true), 0)) << i;
  }
  const Report other = shop(true).run({.source = kOrder});
  EXPECT_EQ(Call::load(other.snapshot, with_f(true), 0).error().code, "invalid_input");
  EXPECT_EQ(shop(true).thaw(*bytes).failures.at(0).code, "invalid_input");

  const auto reexports =
      Module::compile(R"((import "own" "f" (func $f (param i32) (result i32))) (export "f" (func $f)))");
  auto of_host = Instance::create(*reexports, with_f(true))->call("f", {1}, 100);
  ASSERT_EQ(of_host->status(), Call::Status::kWaiting);
  EXPECT_EQ(of_host->dump().error().code, "unsupported");
  ASSERT_TRUE(of_host->answer(std::vector<Value>{2}));
  EXPECT_EQ(of_host->results(), std::vector<Value>{2});

  const auto starts = Module::compile(R"((import "own" "f" (func $f (param i32) (result i32)))
    (func $start (drop (call $f (i32.const 1)))) (start $start))");
  EXPECT_EQ(Instance::create(*starts, with_f(true)).error().code, "waiting");
}

TEST(CallWaits, ACallThatRunsIsNotDumped) {
  Call* seen = nullptr;
  std::string code;
  InstanceOptions options = with_f(true);
  options.functions[0].call = [&](HostCall& call) -> HostResults {
    if (seen != nullptr) code = seen->dump().error().code;
    if (!call.charge(500)) return {};
    return std::vector<Value>{1};
  };
  auto call = Instance::create(*Module::compile(kKeeps), options)->call("run", {4}, 100);
  ASSERT_EQ(call->status(), Call::Status::kOutOfFuel);
  seen = &*call;
  call->add_fuel(2000);
  EXPECT_EQ(call->resume(), Call::Status::kReturned);
  EXPECT_EQ(code, "invalid_argument");
}

// -- C -----------------------------------------------------------------------------------------------

bool later_in_c(void* user_data, membrane_host_call* call, const membrane_value* arguments,
                membrane_value* results) {
  if (user_data != nullptr) return results[0].of.i32 = 10 * arguments[0].of.i32, true;
  membrane_host_call_answer_later(call, "job", 0);
  return false;
}

bool tenfold_in_c(void*, membrane_host_call*, const membrane_value* arguments, membrane_value* results) {
  results[0].of.i32 = 10 * arguments[0].of.i32;
  return true;
}

constexpr membrane_type kI32 = MEMBRANE_I32;

membrane_host_function f_in_c(bool waits) {
  static int at_once;
  return {"own", "f", &kI32, 1, &kI32, 1, later_in_c, waits ? nullptr : &at_once};
}

membrane_sandbox* sandbox_in_c(bool waits) {
  membrane_policy* const policy = membrane_policy_new();
  membrane_sandbox* const sandbox = membrane_sandbox_new(policy);
  membrane_policy_free(policy);
  const membrane_host_function function = f_in_c(waits);
  EXPECT_TRUE(membrane_sandbox_define(sandbox, &function, nullptr));
  return sandbox;
}

std::string described_and_freed(membrane_report* report) {
  membrane_value value{};
  std::string text = membrane_report_outcome(report);
  if (membrane_report_value(report, 0, &value)) text += " " + std::to_string(value.of.i32);
  text += " " + std::to_string(membrane_report_fuel_used(report));
  if (const membrane_error* const error = membrane_report_error(report))
    text += membrane_error_message(error);
  membrane_report_free(report);
  return text;
}

Bytes snapshot_of(const membrane_report* report) {
  size_t size = 0;
  const uint8_t* const bytes = membrane_report_snapshot(report, &size);
  return {bytes, bytes + size};
}

TEST(CFaceWaits, ARunEachAnswerInAProcessOfItsOwn) {
  membrane_program program{};
  program.source = kKeeps;
  const char* const argument = "4";
  program.arguments = &argument;
  program.argument_count = 1;
  membrane_sandbox* const sandbox = sandbox_in_c(true);
  if (const auto bytes = given()) {
    membrane_report* const waiting = membrane_sandbox_thaw(sandbox, bytes->data(), bytes->size(), UINT64_MAX);
    EXPECT_STREQ(membrane_report_outcome(waiting), "waiting");
    const membrane_waiting_call* const call = membrane_report_waiting_call(waiting);
    ASSERT_NE(call, nullptr);
    EXPECT_STREQ(call->name, "own.f");
    EXPECT_STREQ(call->note, "job");
    ASSERT_EQ(call->argument_count, 1u);
    ASSERT_EQ(call->arguments[0].type, MEMBRANE_I32);
    const membrane_value value{MEMBRANE_I32, {10 * call->arguments[0].of.i32}};
    const bool is_first = call->arguments[0].of.i32 == 4;
    membrane_report_free(waiting);
    membrane_report* const next =
        is_first
            ? membrane_sandbox_resume(sandbox, bytes->data(), bytes->size(), &value, 1, nullptr, UINT64_MAX)
            : membrane_sandbox_resume_with(sandbox, bytes->data(), bytes->size(), tenfold_in_c, nullptr,
                                           UINT64_MAX);
    membrane_sandbox_free(sandbox);
    if (!is_first) return say(described_and_freed(next));
    say(in_another(snapshot_of(next)));
    return membrane_report_free(next);
  }
  membrane_report* const waiting = membrane_sandbox_run(sandbox, &program);
  EXPECT_STREQ(membrane_report_outcome(waiting), "waiting");
  const Bytes bytes = snapshot_of(waiting);
  membrane_report_free(waiting);
  membrane_sandbox* const at_once = sandbox_in_c(false);
  EXPECT_EQ(in_another(bytes), described_and_freed(membrane_sandbox_run(at_once, &program)));
  const std::string failed = described_and_freed(
      membrane_sandbox_resume(sandbox, bytes.data(), bytes.size(), nullptr, 0, "sold out", UINT64_MAX));
  EXPECT_TRUE(failed.starts_with("trapped") && failed.ends_with("own.f: sold out")) << failed;
  EXPECT_TRUE(described_and_freed(membrane_sandbox_resume(sandbox, bytes.data(), bytes.size(), nullptr, 0,
                                                          nullptr, UINT64_MAX))
                  .starts_with("invalid"));
  membrane_sandbox_free(at_once);
  membrane_sandbox_free(sandbox);
}

TEST(CFaceWaits, ACallEachAnswerInAProcessOfItsOwn) {
  const membrane_host_function function = f_in_c(true), at_once = f_in_c(false);
  const membrane_instance_options options{&function, 1, 0, 0}, options_at_once{&at_once, 1, 0, 0};
  membrane_error* error = nullptr;
  const auto dumped_and_freed = [](membrane_call* call) {
    size_t size = 0;
    uint8_t* const bytes = membrane_call_dump(call, &size, nullptr);
    const Bytes copy(bytes, bytes + size);
    membrane_bytes_free(bytes);
    membrane_call_free(call);
    return copy;
  };
  const auto described_and_freed = [](membrane_call* call) {
    membrane_value value{};
    EXPECT_TRUE(membrane_call_result(call, 0, &value));
    const std::string text =
        std::to_string(value.of.i32) + " " + std::to_string(membrane_call_fuel_used(call));
    membrane_call_free(call);
    return text;
  };
  if (const auto bytes = given()) {
    membrane_call* const call = membrane_call_load(bytes->data(), bytes->size(), &options, 1000, &error);
    ASSERT_NE(call, nullptr) << membrane_error_message(error);
    ASSERT_EQ(membrane_call_get_status(call), MEMBRANE_WAITING);
    EXPECT_EQ(membrane_call_resume(call), MEMBRANE_WAITING);
    EXPECT_STREQ(membrane_error_code(membrane_call_error(call)), "waiting");
    const membrane_waiting_call* const waiting = membrane_call_waiting(call);
    ASSERT_NE(waiting, nullptr);
    EXPECT_STREQ(waiting->note, "job");
    const membrane_value value{MEMBRANE_I32, {10 * waiting->arguments[0].of.i32}};
    const bool is_first = waiting->arguments[0].of.i32 == 4;
    EXPECT_FALSE(membrane_call_answer(call, nullptr, 0, nullptr, &error));
    EXPECT_STREQ(membrane_error_code(error), "invalid_argument");
    membrane_error_free(error);
    ASSERT_TRUE(is_first ? membrane_call_answer(call, &value, 1, nullptr, nullptr)
                         : membrane_call_answer_with(call, tenfold_in_c, nullptr, nullptr));
    if (!is_first) {
      EXPECT_EQ(membrane_call_get_status(call), MEMBRANE_RETURNED);
      EXPECT_EQ(membrane_call_waiting(call), nullptr);
      membrane_instance* const instance = membrane_call_get_instance(call);
      EXPECT_EQ(membrane_instance_memory(instance, nullptr)[16], 40);
      membrane_instance_free(instance);
      return say(described_and_freed(call));
    }
    return say(in_another(dumped_and_freed(call)));
  }
  membrane_module* const module = membrane_module_compile(kKeeps, 0, nullptr);
  membrane_instance* const instance = membrane_instance_new(module, &options, nullptr);
  membrane_instance* const whole = membrane_instance_new(module, &options_at_once, nullptr);
  const membrane_value argument{MEMBRANE_I32, {4}};
  membrane_call* const call = membrane_instance_call(instance, "run", &argument, 1, 1000, nullptr);
  ASSERT_EQ(membrane_call_get_status(call), MEMBRANE_WAITING);
  EXPECT_EQ(in_another(dumped_and_freed(call)),
            described_and_freed(membrane_instance_call(whole, "run", &argument, 1, 1000, nullptr)));
  membrane_instance_free(whole);
  membrane_instance_free(instance);
  membrane_module_free(module);
}

}  // namespace
}  // namespace membrane
