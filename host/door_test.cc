#include "host/door.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "host/machine_testing.h"

namespace membrane::host {
namespace {

using nlohmann::json;

class FakeSession : public DoorSession {
 public:
  HostResult<std::string> next() override { return turn; }
  HostResult<void> take_result(std::string_view request, HostMemory&) override {
    results.emplace_back(request);
    return {};
  }
  HostResult<std::string> read_file(std::string_view path) override {
    if (path == "/x.js") return "export {}";
    return refuse(Errno::kNotFound, "there is no " + std::string(path));
  }
  std::optional<JsonAnswer> ask_files(std::string_view request) override {
    if (!has_files) return std::nullopt;
    if (request.find("\"spend\"") != std::string_view::npos) return JsonAnswer{{}, CallEnd::kOutOfFuel};
    return JsonAnswer{.json = R"({"value":4})"};
  }
  bool has_files = false;
  std::string turn = R"({"code":"1+1"})";
  std::vector<std::string> results;
};

class DoorTest : public ::testing::Test {
 protected:
  json ask(const json& request) { return ask_text(request.dump()); }
  json ask_text(const std::string& request) { return json::parse(door_.answer(request)); }
  json call(const std::string& name, json arguments = json::array()) {
    return ask(json::object({{"call", name}, {"arguments", std::move(arguments)}}));
  }
  json value(const std::string& name, json arguments = json::array()) {
    const json answer = call(name, std::move(arguments));
    EXPECT_TRUE(answer.contains("value")) << name << ": " << answer;
    return answer.value("value", json());
  }
  std::string fails(const std::string& name, json arguments = json::array()) {
    const json answer = call(name, std::move(arguments));
    EXPECT_TRUE(answer.contains("error")) << name << ": " << answer;
    return answer["error"]["errno"];
  }

  Machine machine_;
  FakeSession session_;
  Door door_{machine_.guest, machine_.dispatcher, &session_};
};

TEST_F(DoorTest, AnswersWithTheValueOfTheFunction) {
  EXPECT_EQ(value("str.concat", {"a", "é"}), "aé");
  EXPECT_EQ(value("str.length", {"abc"}), 3);
  EXPECT_EQ(call("kv.set", {"k", "v"}), json({{"value", nullptr}}));
  EXPECT_EQ(value("kv.get", {"k"}), "v");
}

TEST_F(DoorTest, AFileIsTheSessionsToRead) {
  const auto asked = [&](json path) { return ask_text(R"({"session":"file","path":)" + path.dump() + "}"); };
  EXPECT_EQ(asked("/x.js"), json({{"value", "export {}"}}));
  EXPECT_EQ(asked("/y.js")["error"]["errno"], "ENOENT");
  EXPECT_EQ(asked(5)["error"]["errno"], "EINVAL");
  EXPECT_EQ(ask_text(R"({"session":"file"})")["error"]["errno"], "EINVAL");
}

TEST_F(DoorTest, RequestsAboutFilesAreForWhoHasNoOtherFunctionsForThem) {
  const std::string request = R"({"files":"open","path":"/x"})";
  EXPECT_EQ(ask_text(request)["error"]["errno"], "ENOTSUP");
  session_.has_files = true;
  EXPECT_EQ(ask_text(request), json({{"value", 4}}));
  EXPECT_EQ(door_.answer(R"({"files":"spend"})"), "");
  EXPECT_EQ(door_.end(), CallEnd::kOutOfFuel);
  EXPECT_EQ(Door(machine_.guest, machine_.dispatcher).answer(request).find("ENOTSUP") != std::string::npos,
            true);
}

TEST_F(DoorTest, AProgramIsToldHowMuchMemoryItHas) {
  EXPECT_EQ(ask_text(R"({"session":"memory"})")["value"], machine_.guest.memory().size());
}

TEST_F(DoorTest, BytesThatAreNotUtf8GoAndComeAsBase64) {
  const json bytes = {{"base64", "/wA="}};
  value("kv.set", {"k", bytes});
  EXPECT_EQ(value("kv.get", {"k"}), bytes);
  EXPECT_EQ(fails("kv.set", {bytes, "v"}), "EINVAL") << "a key is text";
  EXPECT_EQ(fails("kv.set", {"k", {{"base64", "!"}}}), "EINVAL");
  EXPECT_EQ(fails("kv.set", {"k", {{"base64", 5}}}), "EINVAL");
}

TEST_F(DoorTest, NumbersThatJsonLacksGoAndComeWhole) {
  EXPECT_EQ(value("str.from_i64", {{{"integer", "9223372036854775807"}}}), "9223372036854775807");
  EXPECT_EQ(value("str.to_i64", {"9223372036854775807"}), json({{"integer", "9223372036854775807"}}));
  EXPECT_EQ(value("str.to_i64", {"-9007199254740992"}), -9007199254740992);
  EXPECT_EQ(value("str.to_f64", {"inf"}), json({{"number", "inf"}}));
  EXPECT_EQ(value("str.to_f64", {"-inf"}), json({{"number", "-inf"}}));
  EXPECT_EQ(value("str.to_f64", {"nan"}), json({{"number", "nan"}}));
  EXPECT_EQ(value("str.from_f64", {{{"number", "-inf"}}}), "-inf");
  EXPECT_EQ(value("str.from_f64", {3}), value("str.from_f64", {3.0}));
}

TEST_F(DoorTest, ArgumentsAreHeldToTheirTypes) {
  for (const json& wrong : {json(1.5), json("1"), json(nullptr), json(2'147'483'648), json(-2'147'483'649),
                            json(true), json{{"integer", "1x"}}, json{{"integer", ""}}, json::array({1})})
    EXPECT_EQ(fails("str.repeat", {"x", wrong}), "EINVAL") << wrong;
  EXPECT_EQ(fails("str.from_i64", {9'223'372'036'854'775'808u}), "EINVAL");
  EXPECT_EQ(fails("str.from_f64", {"1"}), "EINVAL");
  for (const json& wrong :
       {json(1), json(nullptr), json::array(), json::object(), json{{"base64", "YQ=="}, {"more", "b"}}})
    EXPECT_EQ(fails("str.length", {wrong}), "EINVAL") << wrong;
  EXPECT_EQ(fails("str.concat", {"a"}), "EINVAL");
  EXPECT_EQ(fails("str.concat", {"a", "b", "c"}), "EINVAL");
  EXPECT_EQ(fails("str.length", "abc"), "EINVAL");
  EXPECT_TRUE(machine_.dispatcher.records().empty());
}

TEST_F(DoorTest, ADenialNamesItsGrantAndIsRecorded) {
  const json answer = call("http.get", {"https://example.org/"});
  EXPECT_EQ(answer["error"]["errno"], "EACCES");
  EXPECT_EQ(answer["error"]["number"], 1);
  EXPECT_EQ(answer["error"]["grant"], "--allow http:GET:https://example.org/");
  ASSERT_EQ(machine_.dispatcher.records().size(), 1u);
  EXPECT_EQ(machine_.dispatcher.records()[0].arguments, "https://example.org/");
  ASSERT_NE(machine_.dispatcher.last_denial(), nullptr);
  EXPECT_EQ(machine_.dispatcher.last_denial()->reason, answer["error"]["message"].get<std::string>());
}

TEST_F(DoorTest, ACallIsRecordedAsOneOfWebAssemblyIs) {
  Machine other;
  other.call("kv.set", {"key", "value!"});
  other.text("kv.get", {"key"});
  value("kv.set", {"key", "value!"});
  value("kv.get", {"key"});
  const auto& mine = machine_.dispatcher.records();
  const auto& others = other.dispatcher.records();
  ASSERT_EQ(mine.size(), others.size());
  for (size_t i = 0; i < mine.size(); ++i) {
    EXPECT_EQ(mine[i].name, others[i].name);
    EXPECT_EQ(mine[i].arguments, others[i].arguments);
    EXPECT_EQ(mine[i].bytes_in, others[i].bytes_in);
    EXPECT_EQ(mine[i].bytes_out, others[i].bytes_out);
  }
}

TEST_F(DoorTest, AMalformedCallOfTheWorldIsRecordedToo) {
  EXPECT_EQ(fails("kv.get", {1}), "EINVAL");
  ASSERT_EQ(machine_.dispatcher.records().size(), 1u);
  EXPECT_EQ(machine_.dispatcher.records()[0].code, Errno::kInvalid);
  EXPECT_EQ(machine_.dispatcher.records()[0].reason, "key is not a string");
}

TEST_F(DoorTest, FuelIsThatOfTheCallAndOfTheJson) {
  const std::string request = R"({"call":"str.concat","arguments":["abc","de"]})";
  const uint64_t before = machine_.guest.fuel;
  const std::string answer = door_.answer(request);
  EXPECT_EQ(before - machine_.guest.fuel, (20 + 5 + 5) + (20 + request.size() + answer.size()));
}

TEST_F(DoorTest, WithoutFuelNothingIsDoneAndTheRequestCanBeMadeAgain) {
  const std::string request = R"({"call":"kv.set","arguments":["k","v"]})";
  const FunctionSpec* function = find_function("kv", "set");
  machine_.guest.fuel = function->cost.base + function->cost.per_byte * 2 - 1;
  const uint64_t before = machine_.guest.fuel;
  EXPECT_EQ(door_.answer(request), "");
  EXPECT_EQ(door_.end(), CallEnd::kOutOfFuel);
  EXPECT_EQ(machine_.guest.fuel, before);
  EXPECT_TRUE(machine_.dispatcher.records().empty());
  machine_.guest.fuel = before + 1;
  EXPECT_EQ(json::parse(door_.answer(request)), json({{"value", nullptr}}));
  EXPECT_EQ(door_.end(), CallEnd::kReturn);
}

TEST_F(DoorTest, ALongRequestIsPaidBeforeItIsRead) {
  const std::string text(Door::kMaxOwedBytes, 'x');
  const std::string request = R"({"call":"str.length","arguments":[")" + text + R"("]})";
  const uint64_t of_request = Door::kCost.base + Door::kCost.per_byte * request.size();
  machine_.guest.fuel = of_request - 1;
  EXPECT_EQ(door_.answer(request), "");
  EXPECT_EQ(door_.end(), CallEnd::kOutOfFuel);
  EXPECT_EQ(machine_.guest.fuel, of_request - 1);
  machine_.guest.fuel = of_request + 1'000;
  const std::string answer = door_.answer(request);
  EXPECT_EQ(json::parse(answer), json({{"value", text.size()}}));
  EXPECT_EQ(machine_.guest.fuel, 1'000 - find_function("str", "length")->cost.base - answer.size());
}

// The memory of a guest is 64 MiB, and the host lends some more.
TEST_F(DoorTest, RequestsAndAnswersHaveTheMemoryThatIsLeft) {
  const auto length_of = [&](size_t bytes) {
    return ask_text(R"({"call":"str.length","arguments":[")" + std::string(bytes, 'x') + R"("]})");
  };
  EXPECT_EQ(length_of(5'000'000), json({{"value", 5'000'000}}));
  EXPECT_EQ(length_of(20'000'000)["error"]["errno"], "E2BIG");
  std::string zeros = R"({"call":"str.length","arguments":[0)";
  for (int i = 0; i < 1'000'000; ++i) zeros += ",0";
  EXPECT_EQ(ask_text(zeros + "]}")["error"]["errno"], "E2BIG");
  EXPECT_EQ(fails("str.repeat", {"\x01", 10'000'000}), "ENOMEM") << "as JSON it is six times as long";
  EXPECT_EQ(value("str.repeat", {"x", 10'000'000}).get<std::string>().size(), 10'000'000u);
}

TEST_F(DoorTest, NamesThatAreLongAreToldShortly) {
  const std::string answer = door_.answer(R"({"call":")" + std::string(1'000'000, 'x') + R"("})");
  EXPECT_LT(answer.size(), 1'000u);
  EXPECT_EQ(json::parse(answer)["error"]["errno"], "ENOENT");
}

TEST_F(DoorTest, TheEndOfTheRunIsTold) {
  EXPECT_EQ(door_.answer(R"({"call":"agent.submit","arguments":["42"]})"), "");
  EXPECT_EQ(door_.end(), CallEnd::kExit);
  EXPECT_EQ(machine_.guest.answer, "42");
  machine_.guest.output_left = 2;
  EXPECT_EQ(door_.answer(R"({"call":"io.print","arguments":["hello"]})"), "");
  EXPECT_EQ(door_.end(), CallEnd::kOutOfOutput);
  EXPECT_EQ(machine_.guest.stdout_text, "he");
}

TEST_F(DoorTest, AFunctionWithoutAnErrnoThatFailsIsAnErrorAndNoTrap) {
  EXPECT_EQ(fails("str.repeat", {"0123456789", 2'000'000'000}), "ENOMEM");
  EXPECT_EQ(door_.end(), CallEnd::kReturn);
}

TEST_F(DoorTest, NamesThatAreNoneAreToldWithTheNearest) {
  const json answer = call("http.gt", {"x"});
  EXPECT_EQ(answer["error"]["errno"], "ENOENT");
  EXPECT_NE(answer["error"]["message"].get<std::string>().find("http.get"), std::string::npos) << answer;
  for (const char* name : {"", ".", "http", "http.", ".get", "nothing.at", "str.concat.x"})
    EXPECT_TRUE(call(name).contains("error")) << name;
}

TEST_F(DoorTest, TheRegistryHasWhatTakesValues) {
  EXPECT_EQ(ask({{"registry", true}}), json::parse(capabilities_json_of_values()));
}

TEST_F(DoorTest, RequestsThatAreMalformedAreRefused) {
  for (const char* request : {"",
                              " ",
                              "null",
                              "[]",
                              "{}",
                              "{",
                              "\"call\"",
                              "{\"call\":",
                              R"({"call":5})",
                              R"({"call":"str.length"})",
                              R"({"call":"str.length","arguments":["a"]} x)",
                              R"({"call":"str.length","arguments":["a"],"more":1})",
                              R"({"call":["str.length"],"arguments":["a"]})",
                              R"({"arguments":["a"]})",
                              R"({"registry":false})",
                              R"({"registry":true,"x":1})",
                              R"({"registry":true)",
                              R"({"nothing":1})",
                              "{\"call\":\"\xFF\"}",
                              R"({"session":5})",
                              R"({"session":"other"})"}) {
    const json answer = ask_text(request);
    EXPECT_EQ(answer["error"]["errno"], "EINVAL") << request << ": " << answer;
  }
  EXPECT_TRUE(machine_.dispatcher.records().empty());
}

TEST_F(DoorTest, RequestsThatNestOrCountTooMuchAreRefusedBeforeTheyAreParsed) {
  const std::string deep = R"({"call":"str.length","arguments":)" + std::string(1'000'000, '[');
  EXPECT_EQ(ask_text(deep)["error"]["errno"], "EINVAL");
  std::string wide = R"({"call":"str.length","arguments":[0)";
  for (int i = 0; i < 100'000; ++i) wide += ",0";
  EXPECT_EQ(ask_text(wide + "]}")["error"]["errno"], "E2BIG");
  EXPECT_EQ(ask_text(std::string(Door::kMaxRequestBytes + 1, ' '))["error"]["errno"], "E2BIG");
}

TEST_F(DoorTest, ASessionIsAskedAndTold) {
  EXPECT_EQ(ask({{"session", "next"}}), json::parse(session_.turn));
  const std::string result = R"({"session":"result","outcome":"ok","value":[[[[1]]]]})";
  EXPECT_EQ(ask_text(result), json({{"value", nullptr}}));
  EXPECT_EQ(session_.results, std::vector<std::string>{result});
  Door alone(machine_.guest, machine_.dispatcher);
  EXPECT_EQ(json::parse(alone.answer(R"({"session":"next"})"))["error"]["errno"], "ENOTSUP");
}

// Each function of the registry, with arguments of its types: the answer is always JSON.
TEST_F(DoorTest, EveryFunctionCanBeCalled) {
  for (const Capability& capability : capabilities()) {
    for (const FunctionSpec& function : capability.functions) {
      Machine machine;
      Door door(machine.guest, machine.dispatcher);
      json arguments = json::array();
      for (const Param& param : function.params)
        arguments.push_back(is_string(param.type) ? json("1") : json(1));
      const std::string name = std::string(function.module) + "." + std::string(function.name);
      const std::string answer = door.answer(json{{"call", name}, {"arguments", arguments}}.dump());
      if (door.end() == CallEnd::kExit) continue;
      EXPECT_EQ(door.end(), CallEnd::kReturn) << name;
      const json parsed = json::parse(answer, nullptr, false);
      EXPECT_TRUE(parsed.contains("value") || parsed.contains("error")) << name << ": " << answer;
    }
  }
}

}  // namespace
}  // namespace membrane::host
