// host_costs [--check]: for each host function the input, of those known to be bad, that takes the host the longest for
// each unit of fuel. The last line names the worst of all. With --check the exit code is 1 when one takes more than
// kLimitNs.
//
// Times are CPU times of this thread, the least of a few rounds. A function with an effect on the world asks a real
// broker with grants: twenty for HTTP, which none of the URLs match, a store, a database and a directory.
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

// What is slow for one parser or another: escapes, brackets, breaks, what almost matches.
std::vector<Text> bad_texts(size_t bytes) {
  const std::string size = " × " + std::to_string(bytes);
  std::vector<Text> texts;
  for (const char* piece :
       {"a",   "ab",       "%25", "\n", "\"", "\\", "\x01", "é", "[", "<", "&", "&amp;", "<a href=x>y</a>",
        "<p>", "<script>", "0,",  "9",  ".a", "/",  "../",  "?"})
    texts.push_back({std::string(piece) + size, repeated(piece, bytes)});
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
  std::string input;
  double ns = 0;
  double fuel = 0;
  [[nodiscard]] double rate() const { return fuel == 0 ? 0 : ns / fuel; }
};

// One input, in a machine of its own each time, since memories fill up.
template <typename Act>
void measure(Worst& worst, const std::string& input, Broker& broker, Act act) {
  double least = 1e18, fuel = 0;
  for (int round = 0; round < kRounds; ++round) {
    Machine machine(broker);
    machine.guest.fuel = 1ull << 60;
    machine.guest.output_left = 1ull << 30;
    least = std::min(least, act(machine));
    fuel = static_cast<double>((1ull << 60) - machine.guest.fuel);
    if (least / std::max(fuel, 1.0) < worst.rate()) return;  // not the worst: no need to look again
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

// Every text in one place, with the short ones and itself in the others.
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

Worst worst_of(const FunctionSpec& function, Broker& broker) {
  Worst worst{.name = std::string(function.module) + "." + std::string(function.name)};
  const auto strings = static_cast<size_t>(
      std::ranges::count_if(function.params, [](const Param& param) { return is_string(param.type); }));
  const std::vector<Text> texts = texts_for(strings);
  const bool has_numbers = strings != function.params.size();
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
      database.execute("CREATE TABLE t (a, b); INSERT INTO t VALUES (1, 'x')");
  }
  const policy::Policy policy = policy_in(directory);
  policy::Budget budget(policy.limits);
  LocalBroker broker(policy, budget, nullptr, nullptr);
  std::vector<Worst> all;
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
