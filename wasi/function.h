// The functions of wasi_snapshot_preview1 and of wasi_unstable as data: names, types and prices, from preview1.def.
//
// wasi_unstable is snapshot 0 of the same interface. It lacks sock_accept, and three layouts differ: the numbers of
// whence, the structure filestat, and the subscriptions of poll_oneoff.
//
// Threads: constant after the first use.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "wasm/types.h"

namespace membrane::wasi {

inline constexpr std::string_view kModule = "wasi_snapshot_preview1";
inline constexpr std::string_view kUnstableModule = "wasi_unstable";

enum class Abi : uint8_t { kPreview1, kUnstable };

// In units of fuel: per call; per kBytesPerFuel bytes that it takes or returns; per name that path resolution looks
// at, including links; per name of a listing. A request to the host costs kWorldFuel in addition.
inline constexpr uint64_t kCallFuel = 20;
inline constexpr uint64_t kBytesPerFuel = 8;
inline constexpr uint64_t kStepFuel = 4;
inline constexpr uint64_t kListedFuel = 8;
inline constexpr uint64_t kWorldFuel = 500;

// NOLINTBEGIN(readability-identifier-naming): the names of the specification.
enum class FunctionId : uint8_t {
#define WASI(name, params, before) name,
#include "wasi/preview1.def"
#undef WASI
};
// NOLINTEND(readability-identifier-naming)

// Which bytes a call takes as input.
struct Before {
  enum class Kind : uint8_t { kNothing, kIovecs, kLength } kind = Kind::kNothing;
  uint8_t argument = 0;  // the pointer to the vectors, or the length
  uint8_t count = 0;     // of the vectors
};

struct Function {
  FunctionId id;
  Abi abi;
  std::string_view name;
  wasm::FuncType type;
  Before before;
};

// The functions of wasi_snapshot_preview1.
std::span<const Function> functions();
// In wasi_snapshot_preview1. Null when there is no function of this name.
const Function* find_function(std::string_view name);
// Null when the module is neither of the two, or has no function of this name.
const Function* find_function(std::string_view module, std::string_view name);

}  // namespace membrane::wasi
