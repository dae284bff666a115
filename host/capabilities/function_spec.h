// A capability as data: for each host function its name, parameters and result, effect, failures and cost, and its
// implementation. One file per capability: host/capabilities/NAME.cc.
//
// The WebAssembly interface of a function:
//   - a text or bytes parameter is an i32, the address of a string (host/guest/guest.h);
//   - the result comes first, then an i32 errno when the function can fail;
//   - when errno is not 0 the result is the empty string, or 0.
// A function that cannot fail has no errno. When the program still breaks its rules
// (a pointer outside the memory), or there is no memory for the result, the program traps.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "host/guest/errno.h"

namespace membrane::host {

class Call;  // host/capabilities/call.h

enum class Type : uint8_t {
  kText,   // the address of a UTF-8 string; EINVAL for others
  kBytes,  // the address of a string of any bytes
  kI32,
  kI64,
  kF64,
};
constexpr bool is_string(Type type) { return type == Type::kText || type == Type::kBytes; }

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
// `works` (host/limits/work.h; for details see docs/fuel.md).
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

}  // namespace membrane::host
