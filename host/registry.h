// The capabilities as data: what each host function is called, what it takes and gives,
// what it does, when it fails, what it costs, and the code that does it.
//
// From this table come the linker's entries, the reference page, the model's prompt and the
// JSON for other tools; so none can say what another does not. One file for each capability:
// host/capabilities/NAME.cc.
//
// How a function looks to WebAssembly:
//   - a text or bytes parameter is an i32, the address of a string (host/guest.h);
//   - the result comes first, then an i32 errno when the function can fail;
//   - when errno is not 0 the result is the empty string, or 0.
// A function that cannot fail has no errno. When the program breaks its rules all the same
// (a pointer outside the memory), or there is no memory for the result, the program traps.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "base/result.h"
#include "host/errno.h"
#include "wasm/types.h"

namespace membrane::host {

class Call;  // host/call.h

enum class Type : uint8_t {
  kText,   // the address of a string that is UTF-8; EINVAL when it is not
  kBytes,  // the address of a string of any bytes
  kI32,
  kI64,
  kF64,
};
constexpr bool is_string(Type type) { return type == Type::kText || type == Type::kBytes; }
wasm::ValType wasm_type_of(Type type);

struct Param {
  std::string_view name;
  Type type = Type::kText;
};

struct Failure {
  Errno code = Errno::kHost;
  std::string_view when;  // a clause without a full stop: "there is no such key"
};

// Whom a call concerns. What reaches the world goes through the broker, counts as a host
// call, is journaled and stands in the report; what does not is paid with fuel alone.
enum class Effect : uint8_t { kNone, kOutput, kWorld };

// In units of fuel: `base` for each call, `per_byte` for each byte of strings taken and given, and what is done for it
// where that `works` (host/work.h; docs/fuel.md says for what).
struct Cost {
  uint32_t base = 20;
  uint32_t per_byte = 1;
  bool works = false;
};

// What a handler gives back; monostate for a function without a result.
using Value = std::variant<std::monostate, int32_t, int64_t, double, std::string>;
using Handler = HostResult<Value> (*)(Call& call);

// A list of a few things that stands inside a constant table.
template <typename T, size_t kCapacity>
class List {
 public:
  constexpr List() = default;
  constexpr List(std::initializer_list<T> items) : size_(items.size()) {
    std::copy(items.begin(), items.end(), items_.begin());  // more than fit: does not compile
  }
  constexpr const T* begin() const { return items_.data(); }
  constexpr const T* end() const { return items_.data() + size_; }
  constexpr size_t size() const { return size_; }
  constexpr const T& operator[](size_t index) const { return items_[index]; }

 private:
  std::array<T, kCapacity> items_{};
  size_t size_ = 0;
};

inline constexpr size_t kMaxParams = 4;

struct FunctionSpec {
  std::string_view module;
  std::string_view name;
  List<Param, kMaxParams> params = {};
  std::optional<Type> result = {};
  std::string_view result_name = {};  // "body"; empty when there is no result
  bool can_fail = false;              // gives an errno as its last result
  Effect effect = Effect::kNone;
  Cost cost = {};
  std::string_view summary = {};   // one line, for the prompt: what it does, with its corner cases
  std::string_view details = {};   // more for the reference page; may be empty
  List<Failure, 6> failures = {};  // beyond those that every function has
  std::string_view example = {};   // the body of a function, in the text that the preprocessor takes
  std::string_view prints = {};    // what the example prints; empty when the world decides that
  Handler handler = nullptr;
  bool in_prompt = true;  // false: for the languages' libraries, so that a model need not know it
  bool is_rare = false;   // capabilities_signatures() has its name alone
};

struct Capability {
  std::string_view name;
  std::string_view summary;
  std::string_view grant;  // what allows it: "--allow kv"; empty when it needs no grant
  std::span<const FunctionSpec> functions;
  bool is_of_memory =
      false;  // works on the program's own memory, so a language that has its own has no use for it
  std::string_view rules = {};  // what the signatures alone do not say, for a model
};

// All of them, in the order of the reference page.
std::span<const Capability> capabilities();
// Null when there is none.
const Capability* find_capability(std::string_view module);
const FunctionSpec* find_function(std::string_view module, std::string_view name);

wasm::FuncType wasm_signature_of(const FunctionSpec& function);

// "json.get_i32(json, path) -> i32, errno": strings are left without a type.
std::string signature_of(const FunctionSpec& function);
// "(import \"kv\" \"get\" (func $kv.get (param i32) (result i32 i32)))"
std::string import_of(const FunctionSpec& function);

// What the texts below tell of: everything, a capability, or one function of it.
struct Selection {
  const Capability* capability = nullptr;
  const FunctionSpec* function = nullptr;
};
// "http" or "http.get". kNotFound, with the nearest name.
Result<Selection> select(std::string_view name);

// For a person: the reference page, or the part of it that is selected.
std::string capabilities_text(const Selection& selection = {});
// The reference page, docs/capabilities.md.
std::string capabilities_markdown();
// For a model: the rules, and one line for each function, but of the capabilities named in `left_out` (what a
// policy does not grant need not be described: a prompt is paid for at every step).
std::string capabilities_prompt(std::span<const std::string_view> left_out = {});
// The same as short as it can be: one line for each capability, with the signatures of its functions, those that are
// alike together. A string has no type, an i32 is marked with "#", what can fail with "!".
std::string capabilities_signatures(std::span<const std::string_view> left_out = {});
// The lines of it that tell of what is selected, without the rules that all share.
std::string capabilities_prompt(const Selection& selection);
// For a program: {"capabilities":[{"name":…,"functions":[…]}]}.
std::string capabilities_json(const Selection& selection = {});
// The same for a language: without those that work on the program's own memory.
std::string capabilities_json_of_values();

}  // namespace membrane::host
