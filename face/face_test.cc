#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>
#include <thread>

#include "membrane/membrane.h"
#include "membrane/membrane.hpp"

namespace membrane {
namespace {

using Values = std::expected<std::vector<Value>, std::string>;

HostFunction shout() {
  return {"own", "shout", {{ValueType::kI32}, {ValueType::kI32}}, [](HostCall& call) -> Values {
            const auto text = call.read_string(std::get<int32_t>(call.arguments()[0]));
            if (!text) return std::unexpected("no string is there");
            const auto address = call.write_string(std::string(*text) + "!");
            if (!address) return std::unexpected("no room");
            return std::vector<Value>{*address};
          }};
}

constexpr const char* kShout = R"((import "own" "shout" (func $shout (param i32) (result i32)))
(func (export "run") (call $io.print (call $shout (string "hello")))))";

TEST(Sandbox, RunsOwnFunctionsBesideCapabilitiesAndReportsThem) {
  Sandbox sandbox{Policy()};
  ASSERT_TRUE(sandbox.define(shout()));
  const Report report = sandbox.run({.source = kShout});
  ASSERT_EQ(report.outcome, Outcome::kOk) << report.to_text();
  EXPECT_EQ(report.stdout_text, "hello!");
  ASSERT_EQ(report.host_calls.size(), 1u);
  EXPECT_EQ(report.host_calls[0].name, "own.shout");
}

TEST(Sandbox, WithoutTheFunctionTheImportIsRefused) {
  const Report report = Sandbox(Policy()).run({.source = kShout});
  EXPECT_EQ(report.outcome, Outcome::kInvalid);
  ASSERT_FALSE(report.failures.empty());
  EXPECT_EQ(report.failures[0].code, "unknown-import");
}

constexpr const char* kCounts = R"((func (export "run") (result i32) (local $i i32)
  (call $io.print (string "begun, "))
  (loop (local.set $i (i32.add (local.get $i) (i32.const 1))) (br_if 0 (i32.lt_u (local.get $i) (i32.const 1000))))
  (call $io.print (string "done")) (local.get $i)))";

TEST(Sandbox, FreezesAndThawsAsOftenAsOneLikes) {
  const Sandbox sandbox{Policy()};
  const Report whole = sandbox.run({.source = kCounts});
  ASSERT_EQ(whole.outcome, Outcome::kOk) << whole.to_text();
  EXPECT_TRUE(whole.snapshot.empty());
  const Report frozen = sandbox.run({.source = kCounts}, 2000);
  ASSERT_EQ(frozen.outcome, Outcome::kFrozen) << frozen.to_text();
  EXPECT_TRUE(frozen.failures.empty());
  EXPECT_EQ(frozen.stdout_text, "begun, ");
  const Report later = sandbox.thaw(frozen.snapshot, 4000);
  ASSERT_EQ(later.outcome, Outcome::kFrozen) << later.to_text();
  for (const Report* const from : {&frozen, &frozen, &later}) {  // the second is a fork
    const Report end = Sandbox(Policy()).thaw(from->snapshot);
    ASSERT_EQ(end.outcome, Outcome::kOk) << end.to_text();
    EXPECT_EQ(end.stdout_text, whole.stdout_text);
    EXPECT_EQ(end.fuel_used, whole.fuel_used);
    EXPECT_EQ(end.results.at(0).text, "1000");
  }
  const Report ended = sandbox.run({.source = kCounts}, whole.fuel_used + 1);
  EXPECT_EQ(ended.outcome, Outcome::kOk);
  EXPECT_TRUE(ended.snapshot.empty());
}

TEST(Sandbox, AFrozenProgramNeedsTheFunctionsThatItHad) {
  Sandbox sandbox{Policy()};
  ASSERT_TRUE(sandbox.define(shout()));
  const Report frozen = sandbox.run({.source = kShout}, 0);
  ASSERT_EQ(frozen.outcome, Outcome::kFrozen) << frozen.to_text();
  const Report without = Sandbox(Policy()).thaw(frozen.snapshot);
  EXPECT_EQ(without.outcome, Outcome::kInvalid);
  ASSERT_FALSE(without.failures.empty());
  EXPECT_EQ(without.failures[0].code, "unknown-import");
  EXPECT_NE(without.failures[0].hint.find("define it before thawing"), std::string::npos);
  EXPECT_EQ(sandbox.thaw(frozen.snapshot).stdout_text, "hello!");
}

TEST(CFace, FreezesAndThaws) {
  membrane_policy* const policy = membrane_policy_new();
  membrane_sandbox* const sandbox = membrane_sandbox_new(policy);
  const membrane_program program{kCounts, 0, nullptr, nullptr, nullptr, 0, nullptr, 0};
  membrane_report* const frozen = membrane_sandbox_run_until(sandbox, &program, 2000);
  EXPECT_STREQ(membrane_report_outcome(frozen), "frozen");
  size_t size = 0;
  const uint8_t* const snapshot = membrane_report_snapshot(frozen, &size);
  ASSERT_NE(snapshot, nullptr);
  membrane_report* const end = membrane_sandbox_thaw(sandbox, snapshot, size, UINT64_MAX);
  EXPECT_STREQ(membrane_report_outcome(end), "ok");
  EXPECT_STREQ(membrane_report_stdout(end, nullptr), "begun, done");
  EXPECT_EQ(membrane_report_snapshot(end, &size), nullptr);
  EXPECT_EQ(size, 0u);
  membrane_report* const damaged = membrane_sandbox_thaw(sandbox, snapshot, 100, UINT64_MAX);
  EXPECT_STREQ(membrane_report_outcome(damaged), "invalid");
  EXPECT_STREQ(membrane_error_code(membrane_report_error(damaged)), "invalid_input");
  for (membrane_report* const report : {frozen, end, damaged}) membrane_report_free(report);
  membrane_sandbox_free(sandbox);
  membrane_policy_free(policy);
}

TEST(Sandbox, WhatAFunctionThrowsOrReturnsWronglyTraps) {
  const char* const text =
      R"((import "own" "f" (func $f (result i32))) (func (export "run") (result i32) (call $f)))";
  const auto outcome_of = [&](std::function<Values(HostCall&)> call) {
    Sandbox sandbox{Policy()};
    EXPECT_TRUE(sandbox.define({"own", "f", {{}, {ValueType::kI32}}, std::move(call)}));
    const Report report = sandbox.run({.source = text});
    EXPECT_EQ(report.outcome, Outcome::kTrapped);
    return report.failures.empty() ? "" : report.failures[0].message;
  };
  EXPECT_EQ(outcome_of([](HostCall&) -> Values { throw std::runtime_error("thrown"); }), "own.f: thrown");
  EXPECT_EQ(outcome_of([](HostCall&) -> Values { return std::unexpected("refused"); }), "own.f: refused");
  EXPECT_NE(outcome_of([](HostCall&) -> Values { return std::vector<Value>{}; }).find("signature"),
            std::string::npos);
  EXPECT_NE(outcome_of([](HostCall&) -> Values { return std::vector<Value>{1.0}; }).find("signature"),
            std::string::npos);
}

TEST(Sandbox, AFunctionWithoutACallIsRefused) {
  Sandbox sandbox{Policy()};
  EXPECT_FALSE(sandbox.define({"own", "f", {}, {}}));
}

TEST(Sandbox, OwnCallsCountAsHostCalls) {
  Policy policy;
  ASSERT_TRUE(policy.limit("host_calls", "2"));
  Sandbox sandbox(policy);
  ASSERT_TRUE(sandbox.define({"own", "f", {}, [](HostCall&) -> Values { return {}; }}));
  const Report report = sandbox.run({.source = R"((import "own" "f" (func $f))
    (func (export "run") (call $f) (call $f) (call $f)))"});
  EXPECT_EQ(report.outcome, Outcome::kTrapped);
  EXPECT_EQ(report.host_calls.size(), 2u);
  ASSERT_FALSE(report.failures.empty());
  EXPECT_EQ(report.failures[0].code, "EBUDGET");
}

TEST(Sandbox, ASharedBudgetIsSpentByEachRun) {
  Policy policy;
  ASSERT_TRUE(policy.limit("fuel", "1000"));
  const Budget budget(policy);
  Sandbox sandbox(policy);
  sandbox.share(budget);
  const Report report = sandbox.run({.source = "(func (export \"run\") (nop))"});
  EXPECT_EQ(budget.fuel_left(), 1000 - report.fuel_used);
  EXPECT_EQ(sandbox.run({.source = "(func (export \"run\") (loop (br 0)))"}).outcome, Outcome::kOutOfFuel);
  EXPECT_LT(budget.fuel_left(), 10u);
}

TEST(Sandbox, CancelStopsARunFromAnotherThread) {
  Policy policy;
  ASSERT_TRUE(policy.limit("fuel", "1000000000000"));
  ASSERT_TRUE(policy.limit("wall", "1h"));
  Sandbox sandbox(policy);
  std::atomic<bool> runs = false;
  ASSERT_TRUE(sandbox.define({"own", "f", {}, [&](HostCall&) -> Values {
                                runs = true;
                                runs.notify_one();
                                return {};
                              }}));
  std::jthread owner([&] {
    runs.wait(false);
    sandbox.cancel();
  });
  const Report report = sandbox.run({.source = R"((import "own" "f" (func $f))
    (func (export "run") (call $f) (loop (br 0))))"});
  EXPECT_EQ(report.outcome, Outcome::kCancelled);
}

TEST(PolicyFace, RefusesWhatItCannotKeepAndStaysAsItWas) {
  Policy policy;
  const std::string before = policy.to_json();
  EXPECT_FALSE(policy.allow("teleport"));
  EXPECT_FALSE(policy.limit("patience", "1"));
  EXPECT_EQ(policy.to_json(), before);
  EXPECT_FALSE(Policy::parse("[limits]\npatience = 1\n"));
  EXPECT_TRUE(Policy::parse(before, "policy.json"));
  EXPECT_FALSE(policy.explain().empty());
}

// -- the engine -----------------------------------------------------------------------------------

Instance instance_of(const char* text, InstanceOptions options = {}) {
  auto module = Module::compile(text);
  EXPECT_TRUE(module) << module.error().front().message;
  auto instance = Instance::create(*module, std::move(options));
  EXPECT_TRUE(instance) << instance.error().message;
  return std::move(*instance);
}

TEST(ModuleFace, CompilesOnceAndRunsOften) {
  const auto module = Module::compile(R"((global $n (mut i64) (i64.const 0))
    (func (export "add") (param i64) (result i64)
      (global.set $n (i64.add (global.get $n) (local.get 0))) (global.get $n)))");
  ASSERT_TRUE(module);
  ASSERT_EQ(module->exports().size(), 1u);
  EXPECT_EQ(module->exports()[0].signature.parameters, std::vector{ValueType::kI64});
  for (int i = 0; i < 3; ++i) {
    auto instance = Instance::create(*module);
    ASSERT_TRUE(instance);
    ASSERT_TRUE(instance->call("add", {int64_t{40}}, 100));
    const auto call = instance->call("add", {int64_t{2}}, 100);
    ASSERT_TRUE(call);
    EXPECT_EQ(call->results(), std::vector<Value>{int64_t{42}}) << "no instance sees another's globals";
  }
}

TEST(ModuleFace, AllMemoriesTogetherStayBelowTheCeiling) {
  const auto module = Module::compile(R"((memory 4) (func (export "grow") (param i32) (result i32)
    (memory.grow (local.get 0))))");
  ASSERT_TRUE(module);
  const uint64_t before = memory_in_use_bytes();
  set_memory_ceiling(before + 10 * 65536);
  {
    auto first = Instance::create(*module), second = Instance::create(*module);
    ASSERT_TRUE(first && second);
    const auto third = Instance::create(*module);
    ASSERT_FALSE(third);
    EXPECT_NE(third.error().message.find("ceiling"), std::string::npos) << third.error().message;
    EXPECT_EQ(first->call("grow", {int32_t{3}}, 100'000)->results(), std::vector<Value>{int32_t{-1}});
    EXPECT_EQ(first->call("grow", {int32_t{2}}, 100'000)->results(), std::vector<Value>{int32_t{4}});
    EXPECT_EQ(membrane_memory_in_use_bytes(), before + uint64_t{10 * 65536});
    Sandbox sandbox{Policy()};
    EXPECT_EQ(sandbox.run({.source = "(memory 1) (func (export \"main\"))"}).outcome, Outcome::kOutOfMemory);
    membrane_set_memory_ceiling(UINT64_MAX);
    EXPECT_EQ(sandbox.run({.source = "(memory 1) (func (export \"main\"))"}).outcome, Outcome::kOk);
  }
  EXPECT_EQ(memory_in_use_bytes(), before);
}

TEST(ModuleFace, EachMistakeHasItsPlace) {
  const auto module = Module::compile("(func (export \"f\")\n  (call $nobody))");
  ASSERT_FALSE(module);
  EXPECT_EQ(module.error().front().place.line, 2u);
}

TEST(ModuleFace, AllTypesGoInAndComeBack) {
  Instance instance = instance_of(R"((func (export "f") (param i32 i64 f32 f64) (result f64 f32 i64 i32)
    (local.get 3) (local.get 2) (local.get 1) (local.get 0)))");
  const auto call = instance.call("f", {int32_t{-1}, int64_t{-2}, 1.5f, 2.5}, 100);
  ASSERT_TRUE(call);
  EXPECT_EQ(call->results(), (std::vector<Value>{2.5, 1.5f, int64_t{-2}, int32_t{-1}}));
}

TEST(ModuleFace, OutOfFuelIsAPauseThatFuelEnds) {
  constexpr const char* kSum = R"((func (export "sum") (param i32) (result i32) (local i32)
    (loop (local.set 1 (i32.add (local.get 1) (local.get 0)))
      (br_if 0 (local.tee 0 (i32.sub (local.get 0) (i32.const 1)))))
    (local.get 1)))";
  Instance instance = instance_of(kSum);
  const auto whole = instance.call("sum", {100}, 1'000'000);
  ASSERT_TRUE(whole);
  auto call = instance.call("sum", {100}, 10);
  ASSERT_TRUE(call);
  int pauses = 0;
  while (call->status() == Call::Status::kOutOfFuel) {
    EXPECT_EQ(call->failure().code, "out_of_fuel");
    ++pauses;
    call->add_fuel(50);
    call->resume();
  }
  EXPECT_GT(pauses, 5);
  EXPECT_EQ(call->results(), std::vector<Value>{5050});
  EXPECT_EQ(call->fuel_used(), whole->fuel_used());
}

TEST(ModuleFace, AHostFunctionThatCannotBePaidIsCalledAgain) {
  int calls = 0;
  InstanceOptions options;
  options.functions.push_back({"own", "f", {{}, {ValueType::kI32}}, [&](HostCall& call) -> Values {
                                 ++calls;
                                 if (!call.charge(500)) return {};
                                 return std::vector<Value>{7};
                               }});
  Instance instance = instance_of(R"((import "own" "f" (func $f (result i32)))
    (func (export "run") (result i32) (call $f)))",
                                  std::move(options));
  auto call = instance.call("run", {}, 100);
  ASSERT_TRUE(call);
  ASSERT_EQ(call->status(), Call::Status::kOutOfFuel);
  call->add_fuel(1000);
  ASSERT_EQ(call->resume(), Call::Status::kReturned);
  EXPECT_EQ(call->results(), std::vector<Value>{7});
  EXPECT_EQ(calls, 2);
  EXPECT_GE(call->fuel_used(), 500u);
}

TEST(ModuleFace, OwnFunctionsAreTheOnlyHoles) {
  const auto module = Module::compile(R"((func (export "run") (call $io.print (string "out"))))");
  ASSERT_TRUE(module);
  EXPECT_FALSE(Instance::create(*module)) << "capabilities belong to Sandbox";
}

TEST(ModuleFace, WhatDoesNotFitIsRefused) {
  Instance instance = instance_of(R"((func (export "f") (param i32)) (func (export "r") (param externref)))");
  EXPECT_FALSE(instance.call("g", {}, 1));
  EXPECT_FALSE(instance.call("f", {}, 1));
  EXPECT_FALSE(instance.call("f", {1.0}, 1));
  EXPECT_FALSE(instance.call("r", {1}, 1));
}

TEST(ModuleFace, ATrapHasItsPlace) {
  Instance instance = instance_of("(func $f (export \"f\")\n  (unreachable))");
  const auto call = instance.call("f", {}, 100);
  ASSERT_TRUE(call);
  ASSERT_EQ(call->status(), Call::Status::kTrapped);
  EXPECT_EQ(call->failure().code, "unreachable");
  EXPECT_EQ(call->failure().place.function, "$f");
  EXPECT_EQ(call->failure().place.line, 2u);
  EXPECT_EQ(call->failure().place.offset, 25u);  // of the text

  Instance nameless = instance_of("(func (unreachable)) (func (export \"f\") (call 0))");
  const auto other = nameless.call("f", {}, 100);
  ASSERT_TRUE(other);
  const Failure failure = other->failure();
  EXPECT_EQ(failure.place.function, "#0");
  ASSERT_EQ(failure.backtrace.size(), 2u);
  EXPECT_EQ(failure.backtrace[1].function, "#1 (export \"f\")");
}

TEST(ModuleFace, AnInterruptPausesUntilItIsTakenBack) {
  std::atomic<bool> interrupt = true;
  InstanceOptions options;
  options.interrupt = &interrupt;
  Instance instance =
      instance_of(R"((func (export "run") (result i32) (local i32) (local.set 0 (i32.const 3000000))
    (loop (br_if 0 (local.tee 0 (i32.sub (local.get 0) (i32.const 1))))) (i32.const 1)))",
                  options);
  auto call = instance.call("run", {}, 1'000'000'000);
  ASSERT_TRUE(call);
  ASSERT_EQ(call->status(), Call::Status::kInterrupted);
  interrupt = false;
  EXPECT_EQ(call->resume(), Call::Status::kReturned);
}

TEST(ModuleFace, AStartFunctionRunsWithinItsFuel) {
  const auto good = Module::compile(R"((memory (export "memory") 1)
    (func $start (i32.store8 (i32.const 0) (i32.const 9))) (start $start))");
  ASSERT_TRUE(good);
  auto instance = Instance::create(*good);
  ASSERT_TRUE(instance);
  EXPECT_EQ(instance->memory()[0], 9);
  const auto endless = Module::compile("(func $start (loop (br 0))) (start $start)");
  ASSERT_TRUE(endless);
  const auto failed = Instance::create(*endless);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, "out_of_fuel");
}

// -- C -----------------------------------------------------------------------------------------------

bool twice(void* user_data, membrane_host_call* call, const membrane_value* arguments,
           membrane_value* results) {
  ++*static_cast<int*>(user_data);
  if (arguments[0].of.i32 < 0) return membrane_host_call_trap(call, "a negative number"), false;
  results[0].of.i32 = 2 * arguments[0].of.i32;
  return true;
}

TEST(CFace, CallsBackAndPausesAndTraps) {
  int calls = 0;
  const membrane_type type = MEMBRANE_I32;
  const membrane_host_function function{"own", "twice", &type, 1, &type, 1, twice, &calls};
  const membrane_instance_options options{&function, 1, 0, 0};
  membrane_error* error = nullptr;
  membrane_module* const module = membrane_module_compile(
      R"((import "own" "twice" (func $t (param i32) (result i32)))
         (func (export "f") (param i32) (result i32) (call $t (local.get 0))))",
      0, &error);
  ASSERT_NE(module, nullptr);
  membrane_instance* const instance = membrane_instance_new(module, &options, &error);
  membrane_module_free(module);
  ASSERT_NE(instance, nullptr);

  membrane_value argument{MEMBRANE_I32, {21}};
  membrane_call* call = membrane_instance_call(instance, "f", &argument, 1, 0, &error);
  ASSERT_NE(call, nullptr);
  EXPECT_EQ(membrane_call_get_status(call), MEMBRANE_OUT_OF_FUEL);
  EXPECT_STREQ(membrane_error_code(membrane_call_error(call)), "out_of_fuel");
  membrane_call_add_fuel(call, 100);
  EXPECT_EQ(membrane_call_resume(call), MEMBRANE_RETURNED);
  membrane_value value{};
  ASSERT_TRUE(membrane_call_result(call, 0, &value));
  EXPECT_EQ(value.of.i32, 42);
  EXPECT_FALSE(membrane_call_result(call, 1, &value));
  EXPECT_EQ(membrane_call_error(call), nullptr);
  membrane_call_free(call);

  argument.of.i32 = -1;
  call = membrane_instance_call(instance, "f", &argument, 1, 100, &error);
  membrane_instance_free(instance);  // the call keeps it alive
  ASSERT_NE(call, nullptr);
  EXPECT_EQ(membrane_call_get_status(call), MEMBRANE_TRAPPED);
  EXPECT_STREQ(membrane_error_message(membrane_call_error(call)), "own.twice: a negative number");
  membrane_call_free(call);
  EXPECT_EQ(calls, 2);
}

TEST(CFace, RunsAProgramAndReports) {
  membrane_policy* const policy = membrane_policy_new();
  membrane_error* error = nullptr;
  EXPECT_FALSE(membrane_policy_limit(policy, "patience", "1", &error));
  ASSERT_NE(error, nullptr);
  EXPECT_STREQ(membrane_error_code(error), "invalid_argument");
  membrane_error_free(error);
  membrane_sandbox* const sandbox = membrane_sandbox_new(policy);
  membrane_policy_free(policy);
  membrane_program program{};
  program.source = R"((func (export "run") (result f64) (call $io.print (call $io.input)) (f64.const 0.5)))";
  program.input = "in";
  membrane_report* report = membrane_sandbox_run(sandbox, &program);
  EXPECT_STREQ(membrane_report_outcome(report), "ok");
  EXPECT_EQ(membrane_report_error(report), nullptr);
  EXPECT_STREQ(membrane_report_stdout(report, nullptr), "in");
  EXPECT_EQ(membrane_report_answer(report, nullptr), nullptr);
  membrane_value value{};
  ASSERT_TRUE(membrane_report_value(report, 0, &value));
  EXPECT_EQ(value.type, MEMBRANE_F64);
  EXPECT_EQ(value.of.f64, 0.5);
  EXPECT_NE(std::strstr(membrane_report_json(report), "\"outcome\": \"ok\""), nullptr);
  membrane_report_free(report);

  program.source = "(func (export \"run\")\n  (call $nobody))";
  report = membrane_sandbox_run(sandbox, &program);
  EXPECT_STREQ(membrane_report_outcome(report), "invalid");
  EXPECT_EQ(membrane_error_line(membrane_report_error(report)), 2u);
  membrane_report_free(report);
  membrane_sandbox_free(sandbox);
}

}  // namespace
}  // namespace membrane
