#include "sandbox/interpreters/python_memory.h"

#include <algorithm>
#include <string_view>

#include "base/utf8.h"

namespace membrane::sandbox {
namespace {

constexpr std::string_view kCookie = "xdebugpy";
constexpr uint64_t kVersion = 0x030f;  // in 3.15; the order of the offsets differs between versions
constexpr size_t kMostNameCharacters = 200;

}  // namespace

// Its state encodes the width of its characters, which follow its header.
std::string PythonMemory::text(uint32_t object) const {
  constexpr uint32_t kLength = 8, kState = 16, kAsciiHead = 20, kHead = 28;
  if (object == 0) return {};
  const uint32_t state = word(object + uint64_t{kState});
  const uint32_t width = state >> 2 & 7;
  const bool is_ascii = (state >> 6 & 1) != 0;
  if (width != 1 && width != 2 && width != 4) return {};
  const size_t count = std::min<size_t>(word(object + uint64_t{kLength}), kMostNameCharacters);
  const uint64_t from = object + uint64_t{is_ascii ? kAsciiHead : kHead};
  constexpr uint32_t kReplacement = 0xFFFD;
  std::string out;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t at = from + i * width;
    const uint32_t point = width == 1 ? byte(at) : width == 2 ? read<uint16_t>(at) : word(at);
    append_utf8(out, is_scalar_value(point) ? point : kReplacement);
  }
  return out;
}

uint32_t find_python_runtime(std::span<const uint8_t> memory) {
  const auto begin = memory.begin();
  for (auto at = begin;; ++at) {
    at = std::search(at, memory.end(), kCookie.begin(), kCookie.end());
    if (at == memory.end()) return 0;
    const auto runtime = static_cast<uint32_t>(at - begin);
    const PythonMemory reader(memory, runtime);
    if (reader.offset(kOfVersion) >> 16 == kVersion && reader.field(runtime, kFirstInterpreter) != 0)
      return runtime;
  }
}

}  // namespace membrane::sandbox
