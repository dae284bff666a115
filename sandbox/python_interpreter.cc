// CPython as a WASI reactor: `_initialize`, then `turn(source, bytes)` runs a piece of source in __main__, and frees it.
// All that a turn is stands in Membrane's own package (lang/python/guest): the source is always the same call of it.

#include <array>
#include <cstring>

#include "sandbox/interpreters.h"
#include "sandbox/python_places.h"

namespace membrane::sandbox {
namespace {

// Not in __main__'s names, where the program's are.
constexpr std::string_view kWarm = R"(
import sys
sys.path.insert(0, "/usr/local/lib/membrane")
import membrane._session
membrane._session.warm()
del sys
)";
constexpr std::string_view kTurn = "__membrane_turn__()";  // a name that the package has put there

class PythonInterpreter final : public Interpreter {
 public:
  [[nodiscard]] std::optional<Import> import(std::string_view module, std::string_view name) const override {
    // The reactor's own way out. Ours is /dev/membrane, so there is none: -1 is its "no host".
    if (module != "host" || name != "call") return std::nullopt;
    constexpr auto kI32 = wasm::ValType::kI32;
    return Import{{{kI32, kI32, kI32, kI32}, {kI32}}, [](Calls&, engine::HostCall& call) {
                    call.results[0] = static_cast<uint32_t>(-1);
                    return engine::HostAction::kContinue;
                  }};
  }

  Result<bool> warm(Calls& calls, const lang::Package& package) override {
    if (!calls.call("_initialize", {})) return false;
    std::string source(kWarm);
    source += package.init;
    if (!run(calls, source)) return false;
    if (static_cast<int32_t>(calls.result()) != 0)
      return fail(ErrorCode::kUnsupported, "Python could not be warmed: its first turn failed",
                  package.init.empty() ? "" : "Mend its init, which raised an error.");
    runtime_ = find_python_runtime(calls.memory());
    return true;
  }

  // What cannot be imported is a line of Python's standard error.
  Result<bool> import_modules(Calls& calls, std::span<const std::string> names) override {
    std::string source = "import membrane._session\nmembrane._session.import_modules([";
    for (const std::string& name : names)
      source += "\"" + name + "\", ";  // lang::is_module_name(): no quotes
    source += "])\n";
    return run(calls, source) && static_cast<int32_t>(calls.result()) == 0;
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
  [[nodiscard]] bool turn(Calls& calls, std::string_view) const override { return run(calls, kTurn); }
  [[nodiscard]] std::vector<ReportPlace> places(Calls& calls) const override {
    return python_places(calls.memory(), runtime_);
  }

 private:
  static std::optional<uint32_t> place(Calls& calls, std::string_view text) {
    if (!calls.call("host_alloc", std::array{engine::Value::i32(static_cast<uint32_t>(text.size()))}))
      return std::nullopt;
    const auto at = static_cast<uint32_t>(calls.result());
    const std::span<uint8_t> memory = calls.memory();
    if (at == 0 || at > memory.size() || text.size() > memory.size() - at) return std::nullopt;
    std::memcpy(memory.data() + at, text.data(), text.size());
    return at;
  }
  static bool run(Calls& calls, std::string_view source) {
    const auto at = place(calls, source);
    return at &&
           calls.call_program("turn", std::array{engine::Value::i32(*at),
                                                 engine::Value::i32(static_cast<uint32_t>(source.size()))});
  }

  uint32_t runtime_ = 0;  // where the interpreter says what it is
};

}  // namespace

std::unique_ptr<Interpreter> make_python() { return std::make_unique<PythonInterpreter>(); }

}  // namespace membrane::sandbox
