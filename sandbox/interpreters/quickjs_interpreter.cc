// QuickJS-ng, as the module of quickjs-wasi exports it (quickjs_module.h). Membrane's own prelude (lang/javascript/guest)
// has what JavaScript has besides the language, and runs the turns.
//
//   a turn:  begin() ─▶ code ─▶ qjs_eval ─▶ settle(promise) or fail(error)
//            then jobs, rejections that nobody handled, and step(), until step() says that there is no more

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <fstream>
#include <sstream>
#include <vector>

#include "lang/guest_files.h"
#include "sandbox/interpreters/interpreters.h"
#include "sandbox/interpreters/quickjs_host_functions.h"
#include "sandbox/interpreters/quickjs_module.h"
#include "sandbox/interpreters/quickjs_places.h"

namespace membrane::sandbox {
namespace {

using engine::HostAction;
using engine::HostCall;
using engine::Value;

// In order; "node/" stands for all files there, each of which defines modules without running them.
constexpr std::string_view kPrelude[] = {
    "inspect.js",    "url.js",  "web.js",          "streams.js",      "bodies.js",          "fetch.js",
    "rewrite.js",    "node/",   "hints.js",        "types.js",        "builtins.js",        "resolve.js",
    "modules.js",    "zone.js", "intl/options.js", "intl/numbers.js", "intl/zone_names.js", "intl/dates.js",
    "intl/texts.js", "intl.js", "process.js",      "signatures.js",   "functions.js",       "session.js"};
// The module was built with a stack of 1 MiB, below its data, which is enough for 3,000 nested calls of JavaScript. So
// it gets one of the heap. QuickJS calls some functions without checking its limit, which need the rest. What
// overflows that runs through the guard, whose bytes are 0, into the rest of the heap.
constexpr uint32_t kStackBytes = 4u << 20, kStackLimitBytes = 3u << 20, kStackAlignment = 16;
constexpr uint32_t kStackGuardBytes = 64u << 10;
// Words that are not names, and names that a cell cannot set.
constexpr std::string_view kKeywords[] = {
    "Infinity",  "NaN",     "await",    "break",  "case",   "catch", "class",      "const",   "continue",
    "debugger",  "default", "delete",   "do",     "else",   "enum",  "export",     "extends", "false",
    "finally",   "for",     "function", "if",     "import", "in",    "instanceof", "let",     "new",
    "null",      "return",  "super",    "switch", "this",   "throw", "true",       "try",     "typeof",
    "undefined", "var",     "void",     "while",  "with",   "yield"};
// Flags of qjs_eval.
constexpr uint32_t kModule = 1, kBacktraceBarrier = 64, kAsync = 128;

// Boxes that stay alive, as addresses in the image.
struct Kept {
  uint32_t undefined = 0, truth = 0, falsehood = 0;
  uint32_t begin = 0, settle = 0, fail = 0, rejected = 0, step = 0, resolve = 0, load = 0;
  uint32_t where = 0;
  // Not boxes, but addresses: of the engine's count of loops and calls until it next asks whether to continue, and of
  // the lowest byte of its stack.
  uint32_t polls_left = 0, stack = 0;
};

// Which call of the program has returned, in the first of what Calls::progress() holds; the turn's box is the second,
// and then comes what has to be freed.
enum Progress : uint32_t { kEvaluated, kJobDone, kStepped };

Value i32(uint32_t value) { return Value::i32(value); }

class QuickJsInterpreter final : public Interpreter {
 public:
  [[nodiscard]] std::optional<Import> import(std::string_view module, std::string_view name) const override {
    constexpr auto kI32 = wasm::ValType::kI32;
    if (module != "env") return std::nullopt;
    if (name == "host_call")
      return Import{{{kI32, kI32, kI32, kI32, kI32}, {kI32}}, [this](Calls& calls, HostCall& call) {
                      return call_quickjs_host_function(calls, call, where());
                    }};
    if (name == "host_promise_rejection")
      return Import{{{kI32, kI32, kI32}, {}}, [this](Calls& calls, HostCall& call) {
                      const auto box = [&](size_t i) { return static_cast<uint32_t>(call.arguments[i]); };
                      if (calls.stacks() != nullptr)
                        return note_place_of_rejection(box(1), calls, call, where());
                      if (calls.note({box(0), box(1), box(2)})) return HostAction::kContinue;
                      call.trap_message =
                          "promises that were rejected, and not handled yet, take all the memory";
                      return HostAction::kTrap;
                    }};
    const auto zero = [](Calls&, HostCall& call) {
      call.results[0] = 0;
      return HostAction::kContinue;
    };
    if (name == "host_get_timezone_offset") return Import{{{kI32, kI32}, {kI32}}, zero};
    if (name == "host_module_normalize")
      return Import{{{kI32, kI32}, {kI32}},
                    [this](Calls& calls, HostCall& call) { return resolve_module(calls, call); }};
    if (name == "host_module_load")
      return Import{{{kI32, kI32}, {kI32}},
                    [this](Calls& calls, HostCall& call) { return load_module(calls, call); }};
    if (name == "host_interrupt")
      return Import{{{}, {kI32}}, [this](Calls& calls, HostCall& call) {
                      const bool stops = calls.stacks() != nullptr && calls.stacks()->empty();
                      if (stops) note_place_of_poll(calls, call, where());
                      call.results[0] = stops ? 1 : 0;
                      return HostAction::kContinue;
                    }};
    return std::nullopt;
  }

  Result<bool> warm(Calls& calls, const lang::Package& package) override;

  [[nodiscard]] std::vector<uint8_t> state() const override {
    std::vector<uint8_t> bytes(sizeof kept_);
    std::memcpy(bytes.data(), &kept_, sizeof kept_);
    return bytes;
  }
  void set_state(std::span<const uint8_t> state) override {
    if (state.size() == sizeof kept_) std::memcpy(&kept_, state.data(), sizeof kept_);
  }

  [[nodiscard]] bool asks_for_files() const override { return true; }
  [[nodiscard]] bool checks() const override { return true; }
  [[nodiscard]] bool completes() const override { return true; }
  [[nodiscard]] std::span<const std::string_view> keywords() const override { return kKeywords; }
  [[nodiscard]] bool turn(Calls& calls, std::string_view) const override;
  [[nodiscard]] bool go_on(Calls& calls) const override;
  [[nodiscard]] std::vector<ReportPlace> places(Calls& calls) const override;

 private:
  [[nodiscard]] QuickJsWhere where() const { return {kept_.where, kept_.undefined}; }
  [[nodiscard]] bool find_polls_left(const QuickJsModule& js, Calls& calls);
  [[nodiscard]] bool define_host_functions(const QuickJsModule& js);
  [[nodiscard]] bool run_jobs(const QuickJsModule& js, Calls& calls) const;
  [[nodiscard]] bool report_rejections(const QuickJsModule& js, Calls& calls) const;
  [[nodiscard]] bool take_value(const QuickJsModule& js, Calls& calls) const;
  [[nodiscard]] std::optional<bool> take_step(const QuickJsModule& js, Calls& calls) const;
  [[nodiscard]] bool check_stack(Calls& calls) const;
  [[nodiscard]] std::optional<std::string> ask_prelude(const QuickJsModule& js, uint32_t function,
                                                       std::span<const std::string> texts) const;
  HostAction resolve_module(Calls& calls, HostCall& call) const;
  HostAction load_module(Calls& calls, HostCall& call) const;

  Kept kept_;
};

// -- modules: the prelude resolves names, and finds sources -------------------------------------------------------

// The result of a function of the prelude that takes texts, as a text: "" for another value. Nothing when the call did
// not return.
std::optional<std::string> QuickJsInterpreter::ask_prelude(const QuickJsModule& js, uint32_t function,
                                                           std::span<const std::string> texts) const {
  std::vector<uint32_t> boxes;
  for (const std::string& text : texts) {
    const auto box = js.make_string(text);
    if (!box) return std::nullopt;
    boxes.push_back(*box);
  }
  const auto value = js.apply(function, kept_.undefined, boxes);
  if (!value) return std::nullopt;
  std::string text = js.text_of_string(*value).value_or("");
  for (const uint32_t box : boxes) static_cast<void>(js.free(box));
  static_cast<void>(js.free(*value));
  return text;
}

// (base, name) as C strings gives a C string. 0: there is no such module.
HostAction QuickJsInterpreter::resolve_module(Calls& calls, HostCall& call) const {
  const QuickJsModule js = QuickJsModule::inside(call, calls);
  const auto c_string = [&](size_t i) { return js.c_string(static_cast<uint32_t>(call.arguments[i])); };
  const auto name = ask_prelude(js, kept_.resolve, std::array{c_string(0), c_string(1)});
  if (!name) return HostAction::kTrap;
  call.results[0] = name->empty() ? 0 : js.place(*name).value_or(0);
  return HostAction::kContinue;
}

// (name, where to put the length) gives the source.
HostAction QuickJsInterpreter::load_module(Calls& calls, HostCall& call) const {
  const QuickJsModule js = QuickJsModule::inside(call, calls);
  const auto source =
      ask_prelude(js, kept_.load, std::array{js.c_string(static_cast<uint32_t>(call.arguments[0]))});
  if (!source) return HostAction::kTrap;
  const auto length = static_cast<uint32_t>(source->size());
  const uint64_t length_at = static_cast<uint32_t>(call.arguments[1]);
  call.results[0] = 0;
  if (source->empty() || length_at + sizeof length > calls.memory().size()) return HostAction::kContinue;
  call.results[0] = js.place(*source).value_or(0);
  std::memcpy(calls.memory().data() + length_at, &length, sizeof length);
  return HostAction::kContinue;
}

// -- the template -------------------------------------------------------------------------------------------------

bool QuickJsInterpreter::define_host_functions(const QuickJsModule& js) {
  const auto global = js.call("qjs_get_global", {});
  if (!global) return false;
  for (const std::string_view name : quickjs_host_functions()) {
    const auto at = js.place(name);
    if (!at) return false;
    const auto function = js.call("qjs_new_host_function", {*at, static_cast<uint32_t>(name.size()), 2});
    if (!function || !js.call("qjs_set_prop_string", {*global, *at, *function}) || !js.free(*function) ||
        !js.free_bytes(*at))
      return false;
  }
  return js.free(*global);
}

Result<bool> QuickJsInterpreter::warm(Calls& calls, const lang::Package& package) {
  const QuickJsModule js = QuickJsModule::between_turns(calls);
  if (!calls.call("_initialize", {})) return false;
  const auto stack = js.call("wasm_malloc", {kStackBytes});
  if (!stack || *stack == 0) return false;
  if (*stack > calls.memory().size() || calls.memory().size() - *stack < kStackBytes)
    return fail(ErrorCode::kUnsupported, "the module gives no memory for a stack", "");
  std::memset(calls.memory().data() + *stack, 0, kStackGuardBytes);
  kept_.stack = *stack;
  const uint32_t top = (*stack + kStackBytes) & ~(kStackAlignment - 1);
  if (!calls.set_global("__stack_pointer", top))
    return fail(ErrorCode::kUnsupported, "the module does not export its __stack_pointer", "");
  const auto begun = js.call("qjs_init", {});
  if (!begun || !js.call("qjs_set_max_stack_size", {kStackLimitBytes}) ||
      !js.call("qjs_set_promise_rejection_handler", {1}) || !js.call("qjs_set_module_loader", {1}))
    return false;
  const auto undefined = js.call("qjs_get_undefined", {}), truth = js.call("qjs_get_true", {}),
             falsehood = js.call("qjs_get_false", {});
  if (*begun != 0 || !undefined || !truth || !falsehood || !define_host_functions(js)) return false;
  kept_.undefined = *undefined;
  kept_.truth = *truth;
  kept_.falsehood = *falsehood;

  const auto evaluate = [&](std::string_view code,
                            const std::string& name) -> Result<std::optional<uint32_t>> {
    const auto value = js.eval(code, "membrane:" + name, 0);
    if (!value) return std::optional<uint32_t>();
    const auto failed = js.is("exception", *value);
    if (failed && *failed)
      return fail(ErrorCode::kUnsupported, "JavaScript's own part " + name + " failed", "");
    return failed ? value : std::nullopt;
  };
  for (const lang::PackageFile& file : package.files) {  // libraries such as TypeScript's
    std::ifstream in(file.path, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    MEMBRANE_ASSIGN(const auto value, evaluate(text.str(), file.guest));
    if (!value || !js.free(*value)) return false;
  }
  std::optional<uint32_t> session;
  for (const std::string_view entry : kPrelude)
    for (const lang::GuestFile& file : lang::guest_files()) {
      const bool matches = entry.ends_with('/') ? file.path.starts_with(entry) : file.path == entry;
      if (file.language != "javascript" || !matches) continue;
      if (session && !js.free(*session)) return false;
      MEMBRANE_ASSIGN(session, evaluate({reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size()},
                                        std::string(file.path)));
      if (!session) return false;
    }
  if (!session) return fail(ErrorCode::kUnsupported, "JavaScript's own part is not in this program", "");
  const std::pair<const char*, uint32_t*> functions[] = {
      {"begin", &kept_.begin},       {"settle", &kept_.settle}, {"fail", &kept_.fail},
      {"rejected", &kept_.rejected}, {"step", &kept_.step},     {"resolve", &kept_.resolve},
      {"load", &kept_.load},         {"where", &kept_.where}};
  for (const auto& [name, box] : functions) {
    const auto found = js.property(*session, name);
    if (!found) return false;
    *box = *found;
  }
  return find_polls_left(js, calls) && run_jobs(js, calls);
}

// The word of the engine's context that a loop counts down. Without it, places are those of some thousand loops later.
bool QuickJsInterpreter::find_polls_left(const QuickJsModule& js, Calls& calls) {
  constexpr uint32_t kLoops = 1000, kBesides = 20;
  std::array<uint32_t, 512> before{}, after{};
  const auto context = js.call("qjs_get_context_ptr", {});
  if (!context) return false;
  const auto read = [&](std::array<uint32_t, 512>& words) {
    const std::span<const uint8_t> memory = calls.memory();
    if (*context <= memory.size() && sizeof words <= memory.size() - *context)
      std::memcpy(words.data(), memory.data() + *context, sizeof words);
  };
  read(before);
  const auto value =
      js.eval("for (let i = 0; i < " + std::to_string(kLoops) + "; ++i);", "membrane:loops", 0);
  if (!value || !js.free(*value)) return false;
  read(after);
  for (uint32_t i = 0; i < before.size(); ++i)
    if (before[i] - after[i] - kLoops < kBesides)
      kept_.polls_left = *context + static_cast<uint32_t>(i * sizeof(uint32_t));
  return true;
}

// -- a turn -------------------------------------------------------------------------------------------------------

bool QuickJsInterpreter::run_jobs(const QuickJsModule& js, Calls& calls) const {
  for (;;) {
    const auto is_pending = js.call("qjs_is_job_pending", {});
    if (!is_pending) return false;
    if (*is_pending == 0) break;
    if (!js.call("qjs_execute_pending_job", {})) return false;
  }
  return report_rejections(js, calls);
}

bool QuickJsInterpreter::report_rejections(const QuickJsModule& js, Calls& calls) const {
  const std::vector<uint32_t> notes = calls.take_notes();
  for (size_t i = 0; i + 2 < notes.size(); i += 3) {
    const auto taken =
        js.apply(kept_.rejected, kept_.undefined,
                 std::array{notes[i], notes[i + 1], notes[i + 2] != 0 ? kept_.truth : kept_.falsehood});
    if (!taken || !js.free(*taken) || !js.free(notes[i]) || !js.free(notes[i + 1])) return false;
  }
  return true;
}

bool QuickJsInterpreter::turn(Calls& calls, std::string_view) const {
  const QuickJsModule js = QuickJsModule::between_turns(calls);
  const auto turn = js.apply(kept_.begin, kept_.undefined, {});
  if (!turn) return false;
  const auto is_over = js.is("undefined", *turn);
  if (!is_over) return false;
  if (!*is_over) {
    const auto code_box = js.property(*turn, "code"), name_box = js.property(*turn, "name"),
               module_box = js.property(*turn, "isModule");
    if (!code_box || !name_box || !module_box) return false;
    const auto code = js.text(*code_box), name = js.text(*name_box);
    const auto is_module = js.call("qjs_get_bool", {*module_box});
    if (!code || !name || !is_module || !js.free(*code_box) || !js.free(*name_box) || !js.free(*module_box))
      return false;
    const auto code_at = js.place(*code), name_at = js.place(*name);
    if (!code_at || !name_at) return false;
    calls.progress() = {kEvaluated, *turn, *code_at, *name_at};
    const uint32_t flags = *is_module != 0 ? kModule : kAsync | kBacktraceBarrier;
    return calls.call_program("qjs_eval", std::array{i32(*code_at), i32(static_cast<uint32_t>(code->size())),
                                                     i32(*name_at), i32(flags)}) &&
           go_on(calls);
  }
  return js.free(*turn);
}

// After an overflow, the heap may be damaged: nothing of the turn can be kept.
bool QuickJsInterpreter::check_stack(Calls& calls) const {
  const std::span<const uint8_t> memory = calls.memory();
  if (kept_.stack > memory.size() || memory.size() - kept_.stack < kStackGuardBytes) return true;
  const auto guard = memory.subspan(kept_.stack, kStackGuardBytes);
  if (std::ranges::all_of(guard, [](uint8_t byte) { return byte == 0; })) return true;
  return calls.trap(engine::TrapKind::kStackOverflow,
                    "the engine's own functions called themselves too deep, as nested iterator helpers do");
}

bool QuickJsInterpreter::go_on(Calls& calls) const {
  const QuickJsModule js = QuickJsModule::between_turns(calls);
  for (;;) {
    const uint32_t turn = calls.progress()[1];
    switch (calls.progress()[0]) {
      case kEvaluated:
        if (!take_value(js, calls)) return false;
        break;
      case kStepped: {
        const auto is_more = take_step(js, calls);
        if (!is_more) return false;
        if (!*is_more) return js.free(turn) && check_stack(calls);
        break;
      }
      default: break;  // a job is finished
    }
    const auto is_pending = js.call("qjs_is_job_pending", {});
    if (!is_pending) return false;
    if (*is_pending != 0) {
      calls.progress() = {kJobDone, turn};
      if (!calls.call_program("qjs_execute_pending_job", {})) return false;
      continue;
    }
    if (!report_rejections(js, calls)) return false;
    const auto none_at = js.place("");
    if (!none_at) return false;
    calls.progress() = {kStepped, turn, *none_at};
    if (!calls.call_program("qjs_call",
                            std::array{i32(kept_.step), i32(kept_.undefined), i32(0), i32(*none_at)}))
      return false;
  }
}

// Runs on until the engine next polls, and is interrupted there; or until the program makes a host request.
std::vector<ReportPlace> QuickJsInterpreter::places(Calls& calls) const {
  const QuickJsModule js = QuickJsModule::beside_what_was_stopped(calls);
  static_cast<void>(js.call("qjs_set_interrupt_handler", {1}));
  constexpr uint32_t kOne = 1;
  if (kept_.polls_left != 0 && kept_.polls_left + sizeof kOne <= calls.memory().size())
    std::memcpy(calls.memory().data() + kept_.polls_left, &kOne, sizeof kOne);
  if (calls.run_on() && js.is("exception", static_cast<uint32_t>(calls.result())).value_or(false))
    if (const auto error = js.call("qjs_get_exception", {}))
      static_cast<void>(js.apply(kept_.where, kept_.undefined, std::array{*error}));
  const std::vector<std::string>* const stacks = calls.stacks();
  return stacks == nullptr ? std::vector<ReportPlace>() : quickjs_places(*stacks);
}

// The result of the code's evaluation: a promise, or an exception.
bool QuickJsInterpreter::take_value(const QuickJsModule& js, Calls& calls) const {
  const auto value = static_cast<uint32_t>(calls.result());
  if (!js.free_bytes(calls.progress()[2]) || !js.free_bytes(calls.progress()[3])) return false;
  const auto threw = js.is("exception", value);
  if (!threw) return false;
  std::optional<uint32_t> taken;
  if (*threw) {
    const auto error = js.call("qjs_get_exception", {});
    if (!error) return false;
    taken = js.apply(kept_.fail, kept_.undefined, std::array{*error});
    if (!taken || !js.free(*error)) return false;
  } else {
    taken = js.apply(kept_.settle, kept_.undefined, std::array{value});
  }
  return taken && js.free(*taken) && js.free(value);
}

// Whether there is more to wait for. Nothing when the program broke what the step relies on, and it threw.
std::optional<bool> QuickJsInterpreter::take_step(const QuickJsModule& js, Calls& calls) const {
  const auto more = static_cast<uint32_t>(calls.result());
  if (!js.free_bytes(calls.progress()[2]) || js.is("exception", more).value_or(true)) return std::nullopt;
  if (!calls.call("qjs_get_float64", std::array{i32(more)})) return std::nullopt;
  const bool is_more = std::bit_cast<double>(calls.result()) != 0;
  return js.free(more) ? std::optional(is_more) : std::nullopt;
}

}  // namespace

std::unique_ptr<Interpreter> make_quickjs() { return std::make_unique<QuickJsInterpreter>(); }

}  // namespace membrane::sandbox
