#include "host/dispatch.h"

#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <stdexcept>

#include "host/machine_testing.h"

namespace membrane::host {
namespace {

constexpr uint64_t kOutside = 0xFFFF'FF00;

// In place: a guest's account of host memory points to the guest, so guests are not assigned.
void replace_guest(Machine& machine, uint32_t pages, uint32_t max_pages) {
  std::destroy_at(&machine.guest);
  std::construct_at(&machine.guest, pages, max_pages);
}

// Each function, with each string parameter in turn outside of the memory.
TEST(Dispatch, APointerOutsideTheMemoryIsEfaultOrATrapForEveryFunction) {
  for (const Capability& capability : capabilities()) {
    for (const FunctionSpec& function : capability.functions) {
      for (size_t bad = 0; bad < function.params.size(); ++bad) {
        if (!is_string(function.params[bad].type)) continue;
        Machine machine;
        std::vector<uint64_t> slots;
        for (size_t i = 0; i < function.params.size(); ++i)
          slots.push_back(i == bad                             ? kOutside
                          : is_string(function.params[i].type) ? machine.guest.put("1")
                                                               : 1);
        const std::string name = std::string(function.module) + "." + std::string(function.name);
        const Outcome outcome = machine.call_raw(name, slots);
        if (function.can_fail) {
          EXPECT_EQ(outcome.code, Errno::kFault) << name;
        } else {
          EXPECT_EQ(outcome.end, CallEnd::kTrap) << name;
          EXPECT_EQ(outcome.error.code, Errno::kFault) << name;
          EXPECT_NE(outcome.error.reason.find(function.params[bad].name), std::string::npos)
              << outcome.error.reason;
        }
        EXPECT_TRUE(machine.world.requests.empty() && machine.world.queries.empty() &&
                    machine.world.prompts.empty())
            << name;
      }
    }
  }
}

TEST(Dispatch, ATextThatIsNotUtf8IsEinvalForEveryFunctionThatWantsText) {
  for (const Capability& capability : capabilities()) {
    for (const FunctionSpec& function : capability.functions) {
      for (size_t bad = 0; bad < function.params.size(); ++bad) {
        if (function.params[bad].type != Type::kText) continue;
        Machine machine;
        std::vector<uint64_t> slots;
        for (size_t i = 0; i < function.params.size(); ++i)
          slots.push_back(!is_string(function.params[i].type) ? 1
                                                              : machine.guest.put(i == bad ? "a\xFF" : "1"));
        const std::string name = std::string(function.module) + "." + std::string(function.name);
        ASSERT_TRUE(function.can_fail) << name << " takes text, so it can fail";
        EXPECT_EQ(machine.call_raw(name, slots).code, Errno::kInvalid) << name;
      }
    }
  }
}

TEST(Dispatch, WithoutFuelNothingIsDoneAndTheCallCanBeMadeAgain) {
  for (const Capability& capability : capabilities()) {
    for (const FunctionSpec& function : capability.functions) {
      Machine machine;
      std::vector<uint64_t> slots;
      for (const Param& param : function.params)
        slots.push_back(is_string(param.type) ? machine.guest.put("12345678") : 1);
      const uint64_t strings = static_cast<uint64_t>(
          std::ranges::count_if(function.params, [](const Param& p) { return is_string(p.type); }));
      const std::string name = std::string(function.module) + "." + std::string(function.name);
      const uint64_t cost = function.cost.base + function.cost.per_byte * (8 * strings);
      machine.guest.fuel = cost - 1;
      EXPECT_EQ(machine.call_raw(name, slots).end, CallEnd::kOutOfFuel) << name;
      EXPECT_EQ(machine.guest.fuel, cost - 1) << name;
      EXPECT_TRUE(machine.guest.stdout_text.empty() && machine.guest.stderr_text.empty() &&
                  !machine.guest.submitted)
          << name;
      EXPECT_TRUE(machine.dispatcher.records().empty()) << name;
      machine.guest.fuel = cost;
      EXPECT_NE(machine.call_raw(name, slots).end, CallEnd::kOutOfFuel) << name;
    }
  }
}

TEST(Dispatch, FuelIsAlsoWhatACallDoes) {
  Machine machine;
  const std::vector<Machine::Argument> arguments = {"db", "SELECT 1", ""};
  uint64_t before = machine.guest.fuel;
  EXPECT_EQ(machine.text("sql.query", arguments), "[]");
  const uint64_t idle = before - machine.guest.fuel;
  machine.world.query_fuel = 12'345;
  before = machine.guest.fuel;
  EXPECT_EQ(machine.text("sql.query", arguments), "[]");
  EXPECT_EQ(before - machine.guest.fuel, idle + 12'345);
}

TEST(Dispatch, ACallThatFallsShortIsNotMadeAndCanBeMadeAgain) {
  Machine machine;
  machine.world.query_fuel = 12'345;
  machine.guest.fuel = 12'345 + 1'000;  // and nothing for its bytes
  const std::vector<Machine::Argument> arguments = {"db", "SELECT 1", ""};
  EXPECT_EQ(machine.call("sql.query", arguments).end, CallEnd::kOutOfFuel);
  EXPECT_EQ(machine.guest.fuel, 12'345u + 1'000);
  EXPECT_TRUE(machine.guest.fell_short);
  EXPECT_TRUE(machine.dispatcher.records().empty());
  machine.guest.fuel += 100;
  EXPECT_EQ(machine.text("sql.query", arguments), "[]");
  EXPECT_EQ(machine.dispatcher.records().size(), 1u);
}

TEST(Dispatch, FuelIsBaseAndBytesTakenAndGiven) {
  Machine machine;
  const uint64_t before = machine.guest.fuel;
  EXPECT_EQ(machine.text("str.concat", {"abc", "de"}), "abcde");
  EXPECT_EQ(before - machine.guest.fuel, 20u + 5 + 5);
  machine.guest.fuel = 27;  // enough to start, but not for the result
  EXPECT_EQ(machine.text("str.concat", {"abc", "de"}), "abcde");
  EXPECT_EQ(machine.guest.fuel, 0u);
}

TEST(Dispatch, StringsMayOverlapAndMayBeTheSame) {
  Machine machine;
  const uint32_t pointer = machine.guest.put(std::string("\x02\0\0\0hi", 6));
  EXPECT_EQ(machine.call_raw("str.concat", {pointer + 4, pointer + 4}).text, "hihi");
  EXPECT_EQ(machine.call_raw("str.contains", {pointer, pointer + 4}).number, 1);
}

TEST(Dispatch, WithoutMemoryForTheResultAFunctionWithAnErrnoGivesEnomem) {
  Machine machine;
  replace_guest(machine, 1, 1);
  machine.world.files["/f"] = std::string(100'000, 'x');
  EXPECT_EQ(machine.fails("fs.read", {"/f"}), Errno::kNoMemory);
  EXPECT_EQ(machine.number("fs.size", {"/f"}), 100'000);
}

TEST(Dispatch, WithoutMemoryForTheResultAFunctionWithoutAnErrnoEndsTheRun) {
  Machine machine;
  replace_guest(machine, 1, 1);
  EXPECT_EQ(machine.call("str.repeat", {"x", 100'000}).end, CallEnd::kOutOfMemory);
}

TEST(Dispatch, AResultPastTheHostsBoundIsRefusedBeforeItIsMade) {
  Machine machine;
  for (const auto& [name, arguments] : std::vector<std::pair<const char*, std::vector<Machine::Argument>>>{
           {"str.repeat", {"0123456789", 2'000'000'000}},
           {"str.pad_left", {"x", 2'000'000'000}},
           {"str.pad_right", {"x", 2'000'000'000}},
           {"str.replace", {std::string(10'000, 'a'), "a", std::string(10'000, 'b')}},
       }) {
    const Outcome outcome = machine.call(name, arguments);
    EXPECT_EQ(outcome.end, CallEnd::kOutOfMemory) << name;
    EXPECT_EQ(outcome.error.code, Errno::kNoMemory) << name;
  }
}

TEST(Dispatch, ADenialIsRecordedWithItsGrantAndReachesTheProgramAsEacces) {
  Machine machine;
  EXPECT_EQ(machine.dispatcher.last_denial(), nullptr);
  EXPECT_EQ(machine.fails("http.get", {"https://example.org/secret"}), Errno::kAccess);
  ASSERT_EQ(machine.dispatcher.records().size(), 1u);
  const CallRecord& record = machine.dispatcher.records()[0];
  EXPECT_EQ(record.name, "http.get");
  EXPECT_FALSE(record.allowed());
  EXPECT_EQ(record.arguments, "https://example.org/secret");
  EXPECT_EQ(record.grant, "--allow http:GET:https://example.org/secret");
  EXPECT_EQ(record.bytes_out, 0u) << "nothing left";
  ASSERT_NE(machine.dispatcher.last_denial(), nullptr);
  EXPECT_EQ(machine.dispatcher.last_denial()->reason, record.reason);
}

TEST(Dispatch, OnlyCallsThatReachTheWorldAreRecorded) {
  Machine machine;
  machine.text("str.concat", {"a", "b"});
  machine.call("io.print", {"a"});
  machine.call("kv.set", {"key", "value!"});
  machine.text("kv.get", {"key"});
  ASSERT_EQ(machine.dispatcher.records().size(), 2u);
  EXPECT_EQ(machine.dispatcher.records()[0].name, "kv.set");
  EXPECT_EQ(machine.dispatcher.records()[0].arguments, "key, value!");
  EXPECT_EQ(machine.dispatcher.records()[0].bytes_out, 9u);
  EXPECT_EQ(machine.dispatcher.records()[1].bytes_in, 6u);
}

TEST(Dispatch, ABadPointerIsRecordedToo) {
  Machine machine;
  machine.call_raw("kv.get", {kOutside});
  ASSERT_EQ(machine.dispatcher.records().size(), 1u);
  EXPECT_EQ(machine.dispatcher.records()[0].code, Errno::kFault);
  EXPECT_TRUE(machine.dispatcher.records()[0].allowed());
}

TEST(Dispatch, LongArgumentsAreCutBetweenCharacters) {
  Machine machine;
  std::string key = "x";
  while (key.size() < 500) key += "é";
  machine.call("kv.get", {key});
  const std::string& shown = machine.dispatcher.records().at(0).arguments;
  EXPECT_LE(shown.size(), 210u);
  EXPECT_TRUE(shown.ends_with("é…")) << shown;
}

TEST(Dispatch, RecordsAreBounded) {
  Machine machine;
  machine.guest.fuel = ~0ull;
  for (size_t i = 0; i < Dispatcher::kMaxRecords + 5; ++i) machine.call("kv.get", {"k"});
  EXPECT_EQ(machine.dispatcher.records().size(), Dispatcher::kMaxRecords);
  EXPECT_EQ(machine.dispatcher.records_dropped(), 5u);
}

TEST(Dispatch, MalformedCallsPushNoOthersOutOfTheRecord) {
  Machine machine;
  machine.guest.fuel = ~0ull;
  for (size_t i = 0; i < Dispatcher::kMaxRecords + 5; ++i) machine.call_raw("kv.get", {kOutside});
  machine.call("kv.set", {"k", "v"});
  EXPECT_EQ(machine.dispatcher.records().back().name, "kv.set");
  EXPECT_EQ(machine.dispatcher.records().size(), Dispatcher::kMaxMalformedRecords + 1);
  EXPECT_EQ(machine.dispatcher.records_dropped(),
            Dispatcher::kMaxRecords + 5 - Dispatcher::kMaxMalformedRecords);
}

TEST(Dispatch, TheWordsOfTheLastErrorAreKept) {
  Machine machine;
  machine.call("json.get", {"{}", "title"});
  EXPECT_EQ(machine.dispatcher.last_error().code, Errno::kNotFound);
  EXPECT_EQ(machine.dispatcher.last_error().reason, "there is no 'title' in the object");
  machine.call("str.length", {"x"});
  EXPECT_EQ(machine.dispatcher.last_error().code, Errno::kOk);
}

// A world that throws, as a library beneath a capability may.
class ThrowingWorld : public TestWorld {
 public:
  HostResult<std::string> kv_get(std::string_view) override { throw std::runtime_error("surprise"); }
  HostResult<std::string> file_read(std::string_view, uint64_t) override { throw std::bad_alloc(); }
};

TEST(Dispatch, AnExceptionBecomesAnErrno) {
  ThrowingWorld world;
  Machine machine(&world);
  EXPECT_EQ(machine.fails("kv.get", {"a"}), Errno::kHost);
  EXPECT_EQ(machine.fails("fs.read", {"/a"}), Errno::kNoMemory);
}

TEST(Dispatch, OutputPastTheLimitEndsTheRunWithWhatFits) {
  Machine machine;
  machine.guest.output_left = 3;
  EXPECT_EQ(machine.call("io.print", {"hello"}).end, CallEnd::kOutOfOutput);
  EXPECT_EQ(machine.guest.stdout_text, "hel");
  EXPECT_EQ(machine.call("log.info", {"x"}).end, CallEnd::kOutOfOutput);
  EXPECT_EQ(machine.call("io.result", {"x"}).end, CallEnd::kOutOfOutput);
  EXPECT_EQ(machine.call("agent.submit", {"x"}).end, CallEnd::kOutOfOutput);
}

}  // namespace
}  // namespace membrane::host
