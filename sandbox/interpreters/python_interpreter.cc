// CPython as a WASI reactor: `_initialize`, then `turn(source, bytes)` runs a piece of source in __main__, and frees
// it. The first source loads Membrane's own package (lang/python/guest), which handles everything afterwards: turns,
// as JSON.

#include <array>
#include <cstring>

#include "base/json.h"
#include "sandbox/interpreters/interpreters.h"
#include "sandbox/interpreters/python_memory.h"
#include "sandbox/interpreters/python_places.h"
#include "sandbox/interpreters/python_stack.h"

namespace membrane::sandbox {
namespace {

// Not in __main__'s names, which belong to the program.
constexpr std::string_view kWarm = R"(
import sys
sys.path.insert(0, "/usr/local/lib/membrane")
import membrane._session
membrane._session.warm()
del sys
)";

constexpr std::string_view kNothing = R"({"value":null})";
constexpr uint32_t kNoRoom = 1;
constexpr std::string_view kKeywords[] = {
    "False", "None",     "True",  "and",    "as",   "assert", "async",  "await",    "break",
    "class", "continue", "def",   "del",    "elif", "else",   "except", "finally",  "for",
    "from",  "global",   "if",    "import", "in",   "is",     "lambda", "nonlocal", "not",
    "or",    "pass",     "raise", "return", "try",  "while",  "with",   "yield"};

class PythonInterpreter final : public Interpreter {
 public:
  [[nodiscard]] std::optional<Import> import(std::string_view module, std::string_view name) const override {
    if (module != "host" || name != "call") return std::nullopt;
    constexpr auto kI32 = wasm::ValType::kI32;
    return Import{{{kI32, kI32, kI32, kI32}, {kI32}}, answer};
  }

  Result<bool> warm(Calls& calls, const lang::Package& package) override {
    if (!calls.call("_initialize", {})) return false;
    std::string source(kWarm);
    source += package.init;
    if (!run(calls, source)) return false;
    if (static_cast<int32_t>(calls.result()) != 0)
      return fail(ErrorCode::kUnsupported, "Python could not be warmed: its first turn failed",
                  package.init.empty() ? "" : "Correct its init, which raised an error.");
    runtime_ = find_python_runtime(calls.memory());
    widen_python_stack(calls.memory(), runtime_);
    return true;
  }

  // A failed import prints a line on Python's standard error.
  Result<bool> import_modules(Calls& calls, std::span<const std::string> names) override {
    return run(calls, json_text(nlohmann::json{{"imports", names}})) &&
           static_cast<int32_t>(calls.result()) == 0;
  }

  [[nodiscard]] std::vector<uint8_t> state() const override {
    std::vector<uint8_t> bytes(sizeof runtime_);
    std::memcpy(bytes.data(), &runtime_, sizeof runtime_);
    return bytes;
  }
  void set_state(std::span<const uint8_t> state) override {
    if (state.size() == sizeof runtime_) std::memcpy(&runtime_, state.data(), sizeof runtime_);
  }

  [[nodiscard]] bool checks() const override { return true; }
  [[nodiscard]] bool completes() const override { return true; }
  [[nodiscard]] std::span<const std::string_view> keywords() const override { return kKeywords; }
  [[nodiscard]] bool takes_requests() const override { return true; }
  [[nodiscard]] bool turn(Calls& calls, std::string_view request) const override {
    return run(calls, request);
  }
  [[nodiscard]] std::vector<ReportPlace> places(Calls& calls) const override {
    return python_places(calls.memory(), runtime_);
  }

 private:
  // The memory at an address from the program; nothing unless all of it is inside.
  static std::span<uint8_t> memory_at(Calls& calls, uint64_t at, uint64_t bytes) {
    const std::span<uint8_t> memory = calls.memory();
    if (at > memory.size() || bytes > memory.size() - at) return {};
    return memory.subspan(at, bytes);
  }

  static std::array<engine::Value, 1> size_of(std::string_view text) {
    return {engine::Value::i32(static_cast<uint32_t>(text.size()))};
  }
  static std::optional<uint32_t> place(Calls& calls, std::string_view text) {
    if (!calls.call("host_alloc", size_of(text))) return std::nullopt;
    const auto at = static_cast<uint32_t>(calls.result());
    const std::span<uint8_t> room = memory_at(calls, at, text.size());
    if (at == 0 || room.size() != text.size()) return std::nullopt;
    std::memcpy(room.data(), text.data(), text.size());
    return at;
  }

  // _host.call(), the reactor's only exit: `call(request, bytes, answer, answer_bytes)` stores an answer in memory
  // that the program allocates, and its address and size at the last two addresses. kNothing has no bytes. Returns
  // 0, or kNoRoom.
  static engine::HostAction answer(Calls& calls, engine::HostCall& call) {
    const auto trap = [&call](const char* why) {
      call.trap_message = why;
      return engine::HostAction::kTrap;
    };
    const std::array<uint64_t, 4> given{call.arguments[0], call.arguments[1], call.arguments[2],
                                        call.arguments[3]};
    const std::span<uint8_t> request = memory_at(calls, given[0], given[1]);
    if (request.size() != given[1]) return trap("the request is not in the program's memory");
    const auto text = calls.ask(call, {reinterpret_cast<const char*>(request.data()), request.size()});
    if (!text) return engine::HostAction::kTrap;  // the session knows the reason
    uint32_t at = 0;
    const auto bytes = static_cast<uint32_t>(*text == kNothing ? 0 : text->size());
    if (bytes != 0) {
      const auto allocated = calls.call_back(call, "host_alloc", size_of(*text));
      if (!allocated) return engine::HostAction::kTrap;
      at = static_cast<uint32_t>(*allocated);
      const std::span<uint8_t> room = memory_at(calls, at, bytes);
      if (at == 0 || room.size() != bytes) {
        call.results[0] = kNoRoom;
        return engine::HostAction::kContinue;
      }
      std::memcpy(room.data(), text->data(), bytes);
    }
    const std::span<uint8_t> at_place = memory_at(calls, given[2], sizeof at),
                             bytes_place = memory_at(calls, given[3], sizeof bytes);
    if (at_place.empty() || bytes_place.empty())
      return trap("the answer's place is not in the program's memory");
    std::memcpy(at_place.data(), &at, sizeof at);
    std::memcpy(bytes_place.data(), &bytes, sizeof bytes);
    call.results[0] = 0;
    return engine::HostAction::kContinue;
  }
  static bool run(Calls& calls, std::string_view source) {
    const auto at = place(calls, source);
    return at &&
           calls.call_program("turn", std::array{engine::Value::i32(*at),
                                                 engine::Value::i32(static_cast<uint32_t>(source.size()))});
  }

  uint32_t runtime_ = 0;  // address of the interpreter's runtime structure
};

}  // namespace

std::unique_ptr<Interpreter> make_python() { return std::make_unique<PythonInterpreter>(); }

}  // namespace membrane::sandbox
