// host_costs [--check | --sql]: for each host function, the input, among known bad ones, that costs the host the
// most time per unit of fuel. The last line names the worst of all. With --check the exit code is 1 when one exceeds
// kLimitNs. With --sql: all the bad queries, each with its own time and fuel.
//
// Times are CPU times of this thread, the minimum of a few rounds. Functions with effects ask a real broker with
// grants: twenty for HTTP, which match none of the URLs, a store, a database and a directory.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/sqlite.h"
#include "host/dispatch.h"
#include "host/door.h"
#include "host/guest_testing.h"
#include "host/local_broker.h"
#include "policy/budget.h"

namespace {

using namespace membrane;
using namespace membrane::host;

constexpr double kLimitNs = 200;
constexpr int kRounds = 3;

struct Text {
  std::string name;
  std::string bytes;
};

std::string repeated(std::string_view piece, size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += piece;
  return text;
}

// Slow input for some parser: escapes, brackets, line breaks, near matches.
std::vector<Text> bad_texts(size_t bytes) {
  const std::string size = " × " + std::to_string(bytes);
  std::vector<Text> texts;
  for (const char* piece :
       {"a",   "ab",       "%25", "\n", "\"", "\\", "\x01", "é", "[", "<", "&", "&amp;", "<a href=x>y</a>",
        "<p>", "<script>", "0,",  "9",  ".a", "/",  "../",  "?"})
    texts.push_back({std::string(piece) + size, repeated(piece, bytes)});
  using namespace std::string_view_literals;
  texts.push_back({"a list of nothing" + size, repeated("\0\0\0\0"sv, bytes)});
  texts.push_back({"a list of a" + size, repeated("\1\0\0\0a"sv, bytes)});
  texts.push_back({"a list of numbers" + size, repeated("\3\0\0\0009e9\3\0\0\0001e9"sv, bytes)});
  const auto list = [&](const char* piece) {
    texts.push_back({"[" + std::string(piece) + "…]" + size, "[" + repeated(piece, bytes) + "0]"});
  };
  for (const char* piece :
       {"0,", "{},", "[],", "\"\",", "{\"a\":0},", "\"\\u0001\",", "1e308,", "-1.7976931348623157e308,"})
    list(piece);
  std::string object = "{";
  for (size_t i = 0; object.size() < bytes; ++i) object += "\"" + std::to_string(i) + "\":0,";
  texts.push_back({"{\"0\":0,…}" + size, object + "\"a\":0}"});
  texts.push_back({"https://a.example/%2525…" + size, "https://a.example/" + repeated("%2525", bytes)});
  texts.push_back({"https://a.example/../…" + size, "https://a.example/" + repeated("../", bytes)});
  return texts;
}

std::vector<Text> texts_for(size_t parameters) {
  std::vector<Text> texts = {{"nothing", ""}, {"a", "a"}, {"a.b[0]", "a.b[0]"}, {"[1,2]", "[1,2]"}};
  std::vector<size_t> sizes = {100, 8'000};
  if (parameters == 1) sizes.push_back(500'000);
  for (const size_t bytes : sizes)
    for (Text& text : bad_texts(bytes)) texts.push_back(std::move(text));
  return texts;
}

// Slow input for SQLite: many steps, long values in few steps, sorting, many pages, expanded views.
std::vector<Text> bad_queries() {
  const std::string numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 100000) ";
  const std::string few = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 1000) ";
  const auto of = [](const std::string& value) {
    return "WITH v(x) AS MATERIALIZED (SELECT " + value +
           "), n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 200) ";
  };
  const std::string mega = "hex(zeroblob(1000000))", zeros = "replace(hex(zeroblob(50000)), '0', '0,')";
  std::string paths, twice = "WITH t0(x) AS (SELECT 1)", days;
  for (int i = 0; i < 98; ++i) paths += ", '$[" + std::to_string(99'900 + i) + "]'";
  for (int i = 0; i < 95; ++i) days += ", '+1 month'";
  for (int i = 1; i <= 30; ++i) {
    const std::string before = "t" + std::to_string(i - 1);
    twice += ", t" + std::to_string(i) + "(x) AS (SELECT a.x FROM " + before + " a, " + before + " b)";
  }
  return {
      {"count", numbers + "SELECT count(*) FROM n"},
      {"sum of a join", "SELECT sum(x.a * y.a) FROM t x, t y WHERE x.rowid < 300"},
      {"look-ups", "SELECT count(*) FROM t x JOIN t y ON y.rowid = (x.a * 7919) % 20000"},
      {"look-ups by index", "SELECT count(*) FROM t x JOIN t y ON y.b = x.b"},
      {"count of a table", "SELECT count(*) FROM t"},
      {"count of a wide table", "SELECT count(*) FROM wide"},
      {"lengths of a wide table", "SELECT sum(length(d)) FROM wide"},
      {"sort",
       numbers + "SELECT max(i) FROM (SELECT i FROM n ORDER BY (i * 7919) % 100003 LIMIT 1 OFFSET 5)"},
      {"sort all",
       numbers + "SELECT count(*) FROM (SELECT i, row_number() OVER (ORDER BY (i * 7919) % 100003) FROM n)"},
      {"sort of alike texts", few + "SELECT count(*) FROM (SELECT row_number() OVER (ORDER BY "
                                    "substr(hex(zeroblob(5000)), 1, 9990) || ((i * 7919) % 1009)) FROM n)"},
      {"distinct", numbers + "SELECT count(DISTINCT i % 50021) FROM n"},
      {"group", numbers + "SELECT count(*) FROM (SELECT i % 997, sum(i) FROM n GROUP BY 1)"},
      {"window", few + "SELECT max(s) FROM (SELECT sum(i) OVER (ORDER BY i ROWS BETWEEN 500 PRECEDING AND "
                       "CURRENT ROW) s FROM n)"},
      {"hex", few + "SELECT sum(length(hex(zeroblob(100000 + i)))) FROM n LIMIT 1"},
      {"compare long", of(mega) + "SELECT sum(x = (SELECT x FROM v) || '') FROM v, n"},
      {"compare long values",
       "WITH v(x, y) AS MATERIALIZED (SELECT " + mega + ", " + mega +
           "), n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 2000) SELECT sum(x = y) FROM v, n"},
      {"length of long", of(mega) + "SELECT sum(length(x) + i) FROM v, n"},
      {"digits", of("replace(" + mega + ", '0', '1')") + "SELECT sum(x * i) FROM v, n"},
      {"upper", of(mega) + "SELECT sum(length(upper(x)) + i) FROM v, n"},
      {"substr", of(mega) + "SELECT sum(length(substr(x, -i))) FROM v, n"},
      {"instr", of(mega) + "SELECT sum(instr(x, i)) FROM v, n"},
      {"instr of what is almost there",
       of(mega) + "SELECT sum(instr(x, substr(x, 1, 500000) || i)) FROM v, n"},
      {"replace", of(mega) + "SELECT sum(length(replace(x, '0', i % 10))) FROM v, n"},
      {"replace by nothing", of(mega) + "SELECT sum(length(replace(x, '0', ''))) FROM v, n"},
      {"like", of(mega) + "SELECT sum(x LIKE '%000000000000000000000000000001' || i) FROM v, n"},
      {"like with many", of("substr(" + mega + ", 1, 100000)") +
                             "SELECT sum(x LIKE '%0%0%0%0%0%0%0%0%0%0%0%0%0%0%1' || i) FROM v, n"},
      {"like with _", of("substr(" + mega + ", 1, 100000)") + "SELECT sum(x LIKE '%" + std::string(300, '_') +
                          "1' || i) FROM v, n"},
      {"glob of sets", of("substr(" + mega + ", 1, 100000)") +
                           "SELECT sum(x GLOB '*[a-z0-9][a-z0-9][a-z0-9][a-z0-9]1' || i) FROM v, n"},
      {"glob of a large set", of("substr(" + mega + ", 1, 100000)") + "SELECT sum(x GLOB '*[" +
                                  std::string(480, 'b') + "]' || i) FROM v, n"},
      {"strftime of a long format", of("replace(substr(" + mega + ", 1, 60000), '0', '%J')") +
                                        "SELECT sum(length(strftime(x, i))) FROM v, n"},
      {"json",
       of("'[' || " + zeros + " || '0]'") + "SELECT sum(json_extract(x, '$[' || i || ']')) FROM v, n"},
      {"json parsed anew", of("'[' || " + zeros + " || '0]'") + "SELECT sum(json_valid(x || i)) FROM v, n"},
      {"json of many paths", of("'[' || " + zeros + " || '0]'") +
                                 "SELECT sum(length(json_extract(x, '$[' || i || ']'" + paths +
                                 "))) FROM v, n"},
      {"json array", numbers + "SELECT length(json_group_array(i)) FROM n"},
      {"json of values", few + "SELECT sum(length(json_array(i, i, i, i, i, i, i, i))) FROM n"},
      {"concat", numbers + "SELECT length(group_concat(i)) FROM n"},
      {"concat again and again",
       "WITH RECURSIVE n(i, x) AS (SELECT 1, '' UNION ALL SELECT i + 1, x || 'abcdefgh' FROM n LIMIT 5000) "
       "SELECT max(length(x)) FROM n"},
      {"format", few + "SELECT sum(length(format('%.300f %.300f %.300f', i, i * 1e300, i / 3.0))) FROM n"},
      {"format of long", few + "SELECT sum(length(format('%100000d', i))) FROM n"},
      {"dates", of("replace(substr(" + mega + ", 1, 20000), '0', '%J')") +
                    "SELECT sum(length(strftime(x, i))) FROM v, n"},
      {"a date of many steps", few + "SELECT sum(length(date(i, 'unixepoch'" + days + "))) FROM n"},
      {"quote", of(mega) + "SELECT sum(length(quote(x || i))) FROM v, n"},
      {"trim", of("replace(" + mega + ", '0', ' ')") + "SELECT sum(length(trim(x || i))) FROM v, n"},
      {"char", few + "SELECT sum(length(char(i, i, i, i, i, i, i, i))) FROM n"},
      {"sin", numbers + "SELECT sum(sin(i) + pow(i, 0.3) + ln(i) + atan2(i, 3)) FROM n"},
      {"views in views", twice + " SELECT count(*) FROM t12"},
      {"views in views, too many", twice + " SELECT count(*) FROM t30"},
      {"a wrong column", "SELECT nmae FROM t"},
      {"a wrong table", "SELECT 1 FROM nothing_like_it"},
      {"a long list", "SELECT 1 WHERE 1 IN (" + repeated("1,", 60'000) + "1)"},
      {"a long sum", "SELECT 1" + repeated(" + 1", 300)},
      {"a long literal", "SELECT '" + repeated("a", 60'000) + "'"},
  };
}

double cpu_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e9 * static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec);
}

struct Machine {
  explicit Machine(Broker& broker) : dispatcher(guest, broker) {}
  VectorGuest guest;
  Dispatcher dispatcher;
};

struct Worst {
  std::string name;
  std::string input = {};
  double ns = 0;
  double fuel = 0;
  [[nodiscard]] double rate() const { return fuel == 0 ? 0 : ns / fuel; }
};

// One input, in a new machine each time, since memories fill up.
template <typename Act>
void measure(Worst& worst, const std::string& input, Broker& broker, Act act) {
  double least = 1e18, fuel = 0;
  for (int round = 0; round < kRounds; ++round) {
    Machine machine(broker);
    machine.guest.fuel = 1ull << 60;
    machine.guest.output_left = 1ull << 30;
    least = std::min(least, act(machine));
    fuel = static_cast<double>((1ull << 60) - machine.guest.fuel);
    if (least / std::max(fuel, 1.0) < worst.rate()) return;  // not the worst: no need to measure again
  }
  if (least / std::max(fuel, 1.0) > worst.rate()) worst = {worst.name, input, least, std::max(fuel, 1.0)};
}

double direct(Machine& machine, const FunctionSpec& function, const std::vector<const Text*>& texts,
              int64_t number) {
  std::vector<uint64_t> slots;
  size_t next = 0;
  for (const Param& param : function.params) {
    if (is_string(param.type)) slots.push_back(machine.guest.put(texts[next++]->bytes));
    else if (param.type == Type::kF64)
      slots.push_back(std::bit_cast<uint64_t>(static_cast<double>(number) * 1e290));
    else if (param.type == Type::kI32) slots.push_back(static_cast<uint32_t>(number));
    else slots.push_back(static_cast<uint64_t>(number));
  }
  std::vector<uint64_t> results(wasm_signature_of(function).results.size());
  const double before = cpu_ns();
  (void)machine.dispatcher.call(function, slots, results);
  return cpu_ns() - before;
}

// Every text in one parameter, with the short ones and itself in the others.
template <typename Visit>
void for_each_choice(size_t count, const std::vector<Text>& texts, Visit visit) {
  if (count == 0) return visit({});
  for (size_t place = 0; place < count; ++place)
    for (const Text& bad : texts)
      for (const Text* other :
           {static_cast<const Text*>(&texts[0]), static_cast<const Text*>(&texts[1]), &bad}) {
        std::vector<const Text*> chosen(count, other);
        chosen[place] = &bad;
        visit(chosen);
      }
}

// Each query on the database "a", compared with the worst.
void measure_queries(Worst& worst, const FunctionSpec& function, Broker& broker, bool shows_all) {
  static const Text kDatabase{"a", "a"}, kNothing{"nothing", ""};
  for (const Text& query : bad_queries()) {
    Worst one{.name = query.name};
    measure(shows_all ? one : worst, query.name, broker,
            [&](Machine& machine) { return direct(machine, function, {&kDatabase, &query, &kNothing}, 0); });
    if (!shows_all) continue;
    std::printf("%-32s %10.1f ns %12.1f us %12.0f\n", query.name.c_str(), one.rate(), one.ns / 1e3, one.fuel);
    if (one.rate() > worst.rate()) worst = {worst.name, one.name, one.ns, one.fuel};
  }
}

// A map that grows to this many keys, and operations on it.
void measure_map(Worst& worst, const FunctionSpec& function, Broker& broker, int keys, int calls) {
  const auto call = [](Machine& machine, std::string_view name, std::vector<uint64_t> slots) {
    const FunctionSpec& spec = *find_function("map", name);
    slots.resize(spec.params.size());
    std::vector<uint64_t> results(wasm_signature_of(spec).results.size() + 1);
    (void)machine.dispatcher.call(spec, slots, results);
    return results[0];
  };
  measure(worst, "a map of " + std::to_string(keys), broker, [&](Machine& machine) {
    const uint32_t key = machine.guest.put("key-00000");
    double taken = -cpu_ns();
    const uint64_t map = call(machine, "new", {});
    for (int i = 0; i < keys; ++i) {
      std::snprintf(reinterpret_cast<char*>(&machine.guest.memory()[key + 8]), 6, "%05d", i);
      (void)call(machine, "add", {map, key, static_cast<uint64_t>(i % 10)});
    }
    for (int i = 0; i < calls; ++i)
      (void)call(machine, function.name, {map, function.name == "top" ? 9U : key, 1});
    return taken + cpu_ns();
  });
}

Worst worst_of(const FunctionSpec& function, Broker& broker) {
  Worst worst{.name = std::string(function.module) + "." + std::string(function.name)};
  const auto strings = static_cast<size_t>(
      std::ranges::count_if(function.params, [](const Param& param) { return is_string(param.type); }));
  const std::vector<Text> texts = texts_for(strings);
  const bool has_numbers = strings != function.params.size();
  if (function.module == "map")
    for (const auto& [keys, calls] : {std::pair(1, 1'000), std::pair(2'000, 100), std::pair(90'000, 1)})
      measure_map(worst, function, broker, keys, calls);
  if (function.module == "sql" && strings == 3) measure_queries(worst, function, broker, false);
  for_each_choice(strings, texts, [&](const std::vector<const Text*>& chosen) {
    std::string input;
    for (const Text* text : chosen) input += (input.empty() ? "" : ", ") + text->name;
    for (const int64_t number :
         has_numbers ? std::vector<int64_t>{0, -1, 7, 1'000'000, INT32_MAX} : std::vector<int64_t>{0})
      measure(worst, input + (has_numbers ? " " + std::to_string(number) : ""), broker,
              [&](Machine& machine) { return direct(machine, function, chosen, number); });
  });
  return worst;
}

Worst worst_of_door(Broker& broker) {
  Worst worst{.name = "the door"};
  for (const Text& text : texts_for(1)) {
    for (const std::string& request :
         {text.bytes, "{\"call\":\"str.length\",\"arguments\":" + text.bytes + "}",
          "{\"call\":" + json_text(nlohmann::json(text.bytes)) + "}",
          "{\"call\":\"str.length\",\"arguments\":[" + json_text(nlohmann::json(text.bytes)) + "]}"})
      measure(worst, request.substr(0, 40) + "… " + text.name, broker, [&](Machine& machine) {
        Door door(machine.guest, machine.dispatcher);
        const double before = cpu_ns();
        (void)door.answer(request);
        return cpu_ns() - before;
      });
  }
  return worst;
}

std::string table_cell(std::string text) {
  std::ranges::replace_if(text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == '|'; }, '.');
  return text;
}

policy::Policy policy_in(const std::string& directory) {
  policy::Policy policy;
  policy.limits.host_calls = 1ull << 40;
  policy.limits.bytes_in = policy.limits.bytes_out = 1ull << 40;
  policy.limits.wall_ms = 3'600'000;
  std::vector<std::string> flags = {"kv", "fs:write:" + directory + ":/data", "sql:a:" + directory + "/a.db"};
  for (int i = 0; i < 20; ++i) flags.push_back("http:GET:https://a" + std::to_string(i) + ".example/*");
  for (const std::string& flag : flags)
    if (auto allowed = policy::allow(policy, flag); !allowed)
      std::fprintf(stderr, "%s\n", allowed.error().to_string().c_str());
  return policy;
}

}  // namespace

int main(int count, char** arguments) {
  char name[] = "/tmp/host_costs_XXXXXX";
  const std::string directory = mkdtemp(name);
  if (const auto api = sqlite::api(); api) {
    sqlite::Connection database(**api);
    if (database.open(directory + "/a.db", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE) == SQLITE_OK)
      database.execute(
          "CREATE TABLE t (a, b); CREATE TABLE wide (d); CREATE INDEX t_b ON t (b);"
          "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 20000)"
          "INSERT INTO t SELECT i, (i * 7919) % 20011 FROM n;"
          "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 5000)"
          "INSERT INTO wide SELECT hex(zeroblob(1900 + i)) FROM n");
  }
  const policy::Policy policy = policy_in(directory);
  policy::Budget budget(policy.limits);
  LocalBroker broker(policy, budget, nullptr, nullptr);
  std::vector<Worst> all;
  if (count > 1 && std::strcmp(arguments[1], "--sql") == 0) {
    Worst worst{.name = "sql.query"};
    measure_queries(worst, *find_function("sql", "query"), broker, true);
    std::filesystem::remove_all(directory);
    return 0;
  }
  const auto add = [&](Worst worst) {
    std::printf("| %s | %.1f | %.1f µs | %.0f | %s |\n", worst.name.c_str(), worst.rate(), worst.ns / 1e3,
                worst.fuel, table_cell(worst.input).substr(0, 80).c_str());
    std::fflush(stdout);
    all.push_back(std::move(worst));
  };
  std::printf(
      "| function | ns for a unit of fuel | time | fuel | with |\n| --- | ---: | ---: | ---: | --- |\n");
  add(worst_of_door(broker));
  for (const Capability& capability : capabilities())
    for (const FunctionSpec& function : capability.functions) add(worst_of(function, broker));
  std::filesystem::remove_all(directory);
  const Worst& worst = *std::ranges::max_element(all, {}, &Worst::rate);
  const bool is_over = worst.rate() > kLimitNs;
  std::printf("%s is the worst; the limit is %.0f ns\n", worst.name.c_str(), kLimitNs);
  return is_over && count > 1 && std::strcmp(arguments[1], "--check") == 0 ? 1 : 0;
}
