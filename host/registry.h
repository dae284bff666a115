// The capabilities as data: for each host function its name, parameters and result, effect, failures and cost, and
// its implementation.
//
// The linker's entries, the reference page, the model's prompt and the JSON for other tools are generated from this
// table; so they always agree. One file per capability: host/capabilities/NAME.cc.
//
// The WebAssembly interface of a function:
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
  kText,   // the address of a UTF-8 string; EINVAL for others
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

// What a call affects. Calls with access to the world go through the broker, count as host calls, are journaled and
// are listed in the report; others are paid with fuel alone.
enum class Effect : uint8_t { kNone, kOutput, kWorld };

// In units of fuel: `base` per call, `per_byte` per byte of strings passed and returned, and for its work if it
// `works` (host/work.h; for details see docs/fuel.md).
struct Cost {
  uint32_t base = 20;
  uint32_t per_byte = 1;
  bool works = false;
};

// A handler's result; monostate for a function without a result.
using Value = std::variant<std::monostate, int32_t, int64_t, double, std::string>;
using Handler = HostResult<Value> (*)(Call& call);

// A short list inside a constant table.
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
  bool can_fail = false;              // has an errno as its last result
  Effect effect = Effect::kNone;
  Cost cost = {};
  std::string_view summary = {};   // one line, for the prompt: the effect, with corner cases
  std::string_view details = {};   // more for the reference page; may be empty
  List<Failure, 6> failures = {};  // in addition to those of every function
  std::string_view example = {};   // the body of a function, in the text that the preprocessor takes
  std::string_view prints = {};    // the output of the example; empty if it depends on the world
  Handler handler = nullptr;
  bool in_prompt = true;  // false: for the languages' libraries, so that models need not know it
  bool is_rare = false;   // capabilities_signatures() has only its name
};

struct Capability {
  std::string_view name;
  std::string_view summary;
  std::string_view grant;  // the grant that it needs: "--allow kv"; empty for none
  std::span<const FunctionSpec> functions;
  bool is_of_memory =
      false;  // works on the program's own memory, and so is of no use to a language with its own data
  std::string_view rules = {};  // what the signatures do not show, for a model
};

// All of them, in the order of the reference page.
std::span<const Capability> capabilities();
// Null when there is none.
const Capability* find_capability(std::string_view module);
const FunctionSpec* find_function(std::string_view module, std::string_view name);

wasm::FuncType wasm_signature_of(const FunctionSpec& function);

// "json.get_i32(json, path) -> i32, errno": strings have no type.
std::string signature_of(const FunctionSpec& function);
// "(import \"kv\" \"get\" (func $kv.get (param i32) (result i32 i32)))"
std::string import_of(const FunctionSpec& function);

// The subject of the texts below: everything, a capability, or one of its functions.
struct Selection {
  const Capability* capability = nullptr;
  const FunctionSpec* function = nullptr;
};
// "http" or "http.get". kNotFound, with the nearest name.
Result<Selection> select(std::string_view name);

// For a person: the reference page, or the selected part.
std::string capabilities_text(const Selection& selection = {});
// The reference page, docs/capabilities.md.
std::string capabilities_markdown();
// For a model: the rules, and one line per function, without the capabilities in `left_out` (those that a policy
// does not grant need no description: a prompt is paid for at every step).
std::string capabilities_prompt(std::span<const std::string_view> left_out = {});
// The same as briefly as possible: one line per capability, with the signatures of its functions, grouped by type. A
// string has no type, an i32 is marked with "#", a function that can fail with "!".
std::string capabilities_signatures(std::span<const std::string_view> left_out = {});
// The lines about the selection, without the common rules.
std::string capabilities_prompt(const Selection& selection);
// For a program: {"capabilities":[{"name":…,"functions":[…]}]}.
std::string capabilities_json(const Selection& selection = {});
// The same for a language: without functions that work on the program's own memory.
std::string capabilities_json_of_values();

}  // namespace membrane::host
