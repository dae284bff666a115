// Real reports of every outcome against docs/report.schema.json: what the schema says is what is printed,
// and each of its fields is seen.

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "membrane/membrane.hpp"
#include "sandbox/report/report.h"

namespace membrane {
namespace {

using nlohmann::json;

// As much of JSON Schema 2020-12 as the schema uses; an unknown keyword is an error, so that no rule
// goes unchecked.
class Schema {
 public:
  Schema() : root_(json::parse(std::ifstream(MEMBRANE_SOURCE_DIR "/docs/report.schema.json"))) {}

  [[nodiscard]] const json& root() const { return root_; }
  [[nodiscard]] std::string check(const json& value) { return check(root_, value, "report"); }
  [[nodiscard]] const std::set<std::string>& seen() const { return seen_; }

 private:
  std::string check(const json& schema, const json& value, const std::string& where) {
    for (const auto& [keyword, rule] : schema.items())
      if (std::string wrong = check(schema, keyword, rule, value, where); !wrong.empty()) return wrong;
    return "";
  }

  std::string check(const json& schema, const std::string& keyword, const json& rule, const json& value,
                    const std::string& where) {
    static const std::set<std::string> kNotes = {"$schema", "$defs", "title", "description"};
    const auto demand = [&](bool holds) {
      return holds ? "" : where + " breaks " + keyword + ": " + value.dump();
    };
    if (kNotes.contains(keyword)) return "";
    if (keyword == "$ref")
      return check(root_.at(json::json_pointer(rule.get<std::string>().substr(1))), value, where);
    if (keyword == "type") return demand(is_of(value, rule));
    if (keyword == "enum") return demand(std::find(rule.begin(), rule.end(), value) != rule.end());
    if (keyword == "minimum") return demand(value.get<double>() >= rule.get<double>());
    if (keyword == "minLength") return demand(value.get<std::string>().size() >= rule.get<size_t>());
    if (keyword == "minProperties") return demand(value.size() >= rule.get<size_t>());
    if (keyword == "anyOf")
      return demand(std::any_of(rule.begin(), rule.end(),
                                [&](const json& one) { return check(one, value, where).empty(); }));
    if (keyword == "minItems") return demand(value.size() >= rule.get<size_t>());
    if (keyword == "required")
      return demand(
          std::all_of(rule.begin(), rule.end(), [&](const json& name) { return value.contains(name); }));
    if (keyword == "additionalProperties") {
      for (const auto& [name, field] : value.items()) {
        if (schema.contains("properties") && schema["properties"].contains(name)) continue;
        if (!rule.is_object()) return where + " has a field that the schema has not: " + name;
        if (std::string wrong = check(rule, field, where + "." + name); !wrong.empty()) return wrong;
      }
      return "";
    }
    if (keyword == "items" || keyword == "properties") return check_parts(keyword, rule, value, where);
    return "the schema uses what this test does not check: " + keyword;
  }

  std::string check_parts(const std::string& keyword, const json& rule, const json& value,
                          const std::string& where) {
    for (const auto& [name, part] : value.items()) {
      if (keyword == "properties" && !rule.contains(name)) continue;  // additionalProperties says so
      const std::string at = keyword == "items" ? where : where + "." + name;
      seen_.insert(at);
      if (std::string wrong = check(keyword == "items" ? rule : rule[name], part, at); !wrong.empty())
        return wrong;
    }
    return "";
  }

  static bool is_of(const json& value, const json& type) {
    if (type.is_array())
      return std::any_of(type.begin(), type.end(), [&](const json& one) { return is_of(value, one); });
    if (type == "object") return value.is_object();
    if (type == "array") return value.is_array();
    if (type == "string") return value.is_string();
    if (type == "boolean") return value.is_boolean();
    if (type == "integer") return value.is_number_integer();
    return type == "number" && value.is_number();
  }

  json root_;
  std::set<std::string> seen_;
};

Report run(const char* text, std::initializer_list<std::pair<const char*, const char*>> limits = {},
           const char* grant = nullptr) {
  Policy policy;
  for (const auto& [name, value] : limits) EXPECT_TRUE(policy.limit(name, value));
  if (grant != nullptr) {
    EXPECT_TRUE(policy.allow(grant));
  }
  return Sandbox(policy).run({.source = text});
}

constexpr const char* kForEver = "(func (export \"run\") (loop (br 0)))";

std::vector<std::pair<const char*, Report>> reports() {
  std::vector<std::pair<const char*, Report>> made;
  made.emplace_back("ok", run(R"((func (export "run") (result i32 i64 f64)
    (call $io.print (string "hello")) (call $io.result (string "r")) (call $agent.submit (string "a"))
    (i32.const -1) (i64.const -1) (f64.const nan)))"));
  made.emplace_back("ok", run(R"((func (export "run") (result i32 i64 f64 f32)
    (call $io.print (string "hello")) (call $io.result (string "r"))
    (i32.const -1) (i64.const -1) (f64.const nan) (f32.const 0.1)))"));
  // More calls than are listed.
  made.emplace_back("ok", run(R"((func (export "run") (local $i i32)
    (loop (call $kv.get (i32.const -1)) (drop) (drop)
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if 0 (i32.lt_u (local.get $i) (i32.const 1001))))))"));
  made.emplace_back("trapped", run(R"((func $f (unreachable)) (func (export "run") (call $f)))"));
  made.emplace_back("out_of_fuel", run(kForEver, {{"fuel", "1000"}}));
  made.emplace_back("out_of_memory", run("(memory 100) (func (export \"run\"))", {{"memory", "64KiB"}}));
  made.emplace_back(
      "out_of_output",
      run(R"((func (export "run") (loop (call $io.print (string "more")) (br 0))))", {{"output", "1KiB"}}));
  made.emplace_back("timed_out", run(kForEver, {{"fuel", "1000000000000"}, {"wall", "1ms"}}));
  made.emplace_back("denied",
                    run(R"((func (export "run") (drop (call $http.get! (string "https://example.org/")))))"));
  made.emplace_back("denied", run(R"((func (export "run") (drop (call $kv.get! (string "k")))))"));
  made.emplace_back("invalid", run("(func (export \"run\") (i32.add)) (func (call $nobody))"));
  made.emplace_back("invalid", run("(func (call $nobody)) (func (call $nothing))"));
  made.emplace_back("invalid", run("(func (export \"other\"))"));
  Sandbox stopped{Policy()};
  stopped.cancel();
  made.emplace_back("cancelled", stopped.run({.source = kForEver}));
  made.emplace_back("frozen", Sandbox(Policy()).run({.source = kForEver}, 1000));
  return made;
}

TEST(ReportSchema, HoldsForRealReportsOfEveryOutcome) {
  Schema schema;
  for (const auto& [outcome, report] : reports()) {
    const json printed = json::parse(report.to_json());
    EXPECT_EQ(printed["outcome"], outcome) << printed.dump(2);
    EXPECT_EQ(schema.check(printed), "") << printed.dump(2);
  }
}

// Of a program in a language, which not every machine has.
json report_of_a_language() {
  sandbox::Report report;
  report.outcome = sandbox::Outcome::kRaised;
  report.errors.push_back({"ValueError", "no such luck", {}, "", {}, "Traceback (most recent call last): …"});
  report.value = {{"text/plain", "4", false}, {"image/png", "AAAA", true}};
  report.displays = {report.value};
  report.files = {{"/tmp/out.csv", 12}};
  report.kept = {"results/tmp/out.csv"};
  report.exit_code = 3;
  report.output_bytes_cut = 5;
  report.waits_for = {{"shop.price", R"(["tea"])", "{}", ""},
                      {"shop.price", "[7]", "{}", "", {{"i32", "7", 7}}, "tea"}};
  report.flows.emplace();
  report.flows->state = {.calls = 3,
                         .private_reads = {{{1, "fs.read", "/mail/1"}}, 0},
                         .untrusted_reads = {{{2, "http.request", "GET https://example.org/"}}, 1}};
  report.flows->egress = {{3, "http.request", "POST https://example.org/", host::Leaving::kRefused}};
  report.flows->more_egress = 2;
  return json::parse(sandbox::render_json(report, false));
}

// Of a command in a Linux sandbox.
json report_of_linux() {
  sandbox::Report report;
  report.exit_code = 0;
  report.stdout_text = report.stderr_text = "\xff";
  report.platform = "trap";
  report.limits_reached = {{"tasks", 3}};
  report.kind_reason = "there is no file git here, and a command may have that name";
  return json::parse(sandbox::render_json(report, false));
}

TEST(ReportSchema, HoldsForALanguage) {
  Schema schema;
  EXPECT_EQ(schema.check(report_of_a_language()), "");
}

TEST(ReportSchema, HoldsForALinuxSandbox) {
  Schema schema;
  EXPECT_EQ(schema.check(report_of_linux()), "");
}

TEST(ReportSchema, HasNoFieldThatNoReportHas) {
  Schema schema;
  (void)schema.check(report_of_a_language());
  (void)schema.check(report_of_linux());
  for (const auto& [outcome, report] : reports()) (void)schema.check(json::parse(report.to_json()));
  for (const auto& [name, field] : schema.root()["properties"].items())
    EXPECT_TRUE(schema.seen().contains("report." + name)) << name;
  for (const char* const name : {"code", "message", "place", "hint", "backtrace", "traceback"})
    EXPECT_TRUE(schema.seen().contains(std::string("report.error.") + name)) << name;
  for (const auto& [name, field] : schema.root()["$defs"]["host_call"]["properties"].items())
    EXPECT_TRUE(schema.seen().contains("report.host_calls." + name)) << name;
}

TEST(ReportSchema, RefusesWhatIsNotAReport) {
  Schema schema;
  json report = json::parse(run("(func (export \"run\"))").to_json());
  ASSERT_EQ(schema.check(report), "");
  for (const auto& [field, wrong] : {std::pair<const char*, json>{"outcome", "fine"},
                                     {"fuel_used", -1},
                                     {"stdout", 1},
                                     {"surprise", 1},
                                     {"host_calls", json::array({1})}}) {
    json broken = report;
    broken[field] = wrong;
    EXPECT_NE(schema.check(broken), "") << field;
  }
  report.erase("run_us");
  EXPECT_NE(schema.check(report), "");
}

}  // namespace
}  // namespace membrane
