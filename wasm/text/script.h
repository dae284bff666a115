// Test scripts, .wast (the reference interpreter's format; the official suite is written in it).
//
// A script is a list of commands. Modules stay as text or bytes, since many are malformed on
// purpose: the runner parses or decodes each where its command says so. Commands that WebAssembly
// 3.0's scripts do not have are errors.
//
// Ownership: commands hold views into the script's text, which must outlive them.
// Threads: values.
#pragma once

#include <array>
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "wasm/types.h"

namespace membrane::wasm {

struct ScriptModule {
  enum class Kind : uint8_t {
    kText,    // `(module …)`, or bare module fields: source() is for parse_text
    kBinary,  // `(module binary "…")`: source() is for the decoder
    kQuote,   // `(module quote "…")`: source() is for parse_text
  };
  Kind kind = Kind::kText;
  std::string name;       // $identifier without its $, or empty
  std::string_view text;  // kText: where it is in the script
  std::string bytes;      // kBinary, kQuote: what the strings say
  [[nodiscard]] std::string_view source() const {
    return kind == Kind::kText ? text : std::string_view(bytes);
  }
};

// How a v128 is written; a scalar is one lane.
enum class LaneShape : uint8_t { kScalar, kI8x16, kI16x8, kI32x4, kI64x2, kF32x4, kF64x2 };
uint32_t lane_count(LaneShape shape);

// An argument, or a result that is known exactly.
struct ScriptValue {
  ValType type = ValType::kI32;
  uint64_t bits = 0;                 // i32 (zero-extended), i64, f32 and f64 as IEEE bits; the number
                                     // of an externref (ref.extern n)
  std::array<uint8_t, 16> vector{};  // v128, little endian
  bool is_null = false;              // references; of any type when `type` is kBottom
  bool is_host = false;              // `(ref.host n)`: an externref's number, as an anyref
};

enum class NanPattern : uint8_t { kNone, kCanonical, kArithmetic };

// What a result must be.
struct ResultPattern {
  ScriptValue value;
  LaneShape shape = LaneShape::kScalar;
  std::array<NanPattern, 16> nans{};  // of each lane: kNone compares bits
  bool any_reference = false;         // `(ref.func)`, `(ref.struct)`, …: any of that type that is not null
  std::vector<ResultPattern> either;  // when there are any: one of these, and the rest means nothing
};

// Whether a number or vector (low and high half) fits the pattern; references are the runner's.
bool matches(const ResultPattern& pattern, uint64_t low, uint64_t high);

struct Action {
  enum class Kind : uint8_t { kInvoke, kGet } kind = Kind::kInvoke;
  std::string module;  // $identifier without its $; empty means the last module
  std::string name;    // of the export
  std::vector<ScriptValue> arguments;
};

struct Command {
  enum class Kind : uint8_t {
    kModule,            // module
    kModuleDefinition,  // module: checked, and kept under its name
    kModuleInstance,    // name of the instance, module_name of the definition; either may be empty
    kRegister,          // name (string), module_name
    kAction,            // action
    kAssertReturn,      // action, results
    kAssertTrap,        // action, message
    kAssertTrapModule,  // module, message: its instantiation traps
    kAssertExhaustion,  // action, message
    kAssertException,   // action
    kAssertInvalid,     // module, message
    kAssertMalformed,   // module, message
    kAssertUnlinkable,  // module, message
  };
  Kind kind{};
  uint32_t line = 0;  // 1-based
  ScriptModule module;
  std::string name;
  std::string module_name;
  Action action;
  std::vector<ResultPattern> results;
  std::string message;
};
std::string_view name_of(Command::Kind kind);  // "assert_return"

std::expected<std::vector<Command>, Diagnostic> parse_script(std::string_view text);

}  // namespace membrane::wasm
