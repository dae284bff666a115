#include "sandbox/interpreters/python_places.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "sandbox/interpreters/python_memory.h"

namespace membrane::sandbox {
namespace {

constexpr std::string_view kOwnFiles = "/usr/local/lib/membrane/", kFrozenFiles = "<frozen ";
constexpr std::string_view kTurn = "turn";  // in membrane/_session.py
constexpr size_t kMostFrames = 10'000, kMostPlaces = 64;
constexpr uint32_t kMostLineBytes = 4u << 20;  // bound on line tables, for all frames together

// The line of an instruction, from the function's line table: an entry for each few instructions, whose first byte
// alone has its highest bit set (Objects/locations.md of CPython). 0 where there is none.
uint32_t line_of(const PythonMemory& reader, uint32_t code, uint32_t instruction, uint32_t& bytes_left) {
  constexpr uint32_t kBytesLength = 8, kBytesHead = 16;
  const uint32_t table = reader.field(code, kLines);
  if (table == 0) return 0;
  const uint32_t size = std::min(reader.word(table + uint64_t{kBytesLength}), bytes_left);
  const uint64_t from = table + uint64_t{kBytesHead};
  int64_t line = reader.field(code, kFirstLine);
  uint64_t passed = 0;  // number of instructions in the previous entries
  for (uint32_t at = 0; at < size;) {
    const uint8_t head = reader.byte(from + at++);
    const uint32_t kind = head >> 3 & 15;
    constexpr uint32_t kFirstOfOneLine = 10, kNoColumns = 13, kLong = 14, kNone = 15;
    if (kind == kNoColumns || kind == kLong) {
      uint32_t number = 0;
      for (uint32_t shift = 0; at < size && shift < 30; shift += 6) {
        const uint8_t next = reader.byte(from + at++);
        number |= (next & 63u) << shift;
        if ((next & 64) == 0) break;
      }
      line += (number & 1) != 0 ? -static_cast<int64_t>(number >> 1) : static_cast<int64_t>(number >> 1);
    } else if (kind >= kFirstOfOneLine && kind < kNoColumns) {
      line += kind - kFirstOfOneLine;
    }
    while (at < size && (reader.byte(from + at) & 0x80) == 0) ++at;
    passed += (head & 7) + 1;
    if (instruction < passed) {
      bytes_left -= at;
      return kind == kNone || line < 1 || line > INT32_MAX ? 0 : static_cast<uint32_t>(line);
    }
  }
  bytes_left -= size;
  return 0;
}

// Nothing for a frame that is not a function's: one of the interpreter's own, between two calls from C.
std::optional<ReportPlace> place_of(const PythonMemory& reader, uint32_t frame, uint32_t& line_bytes_left) {
  constexpr uint8_t kOfTheInterpreter = 3;
  constexpr uint32_t kTagBits = 3, kInstructionBytes = 2;
  if (reader.byte(frame + reader.offset(kOwner)) >= kOfTheInterpreter) return std::nullopt;
  const uint32_t code = reader.field(frame, kExecutable) & ~kTagBits;
  const uint64_t first = code + reader.offset(kInstructions);
  const uint32_t now = reader.field(frame, kInstruction);
  if (code == 0 || now < first) return std::nullopt;
  ReportPlace place;
  place.file = reader.text(reader.field(code, kFileName));
  place.function = reader.text(reader.field(code, kQualifiedName));
  place.line = line_of(reader, code, static_cast<uint32_t>(now - first) / kInstructionBytes, line_bytes_left);
  if (place.file.empty()) return std::nullopt;
  return place;
}

}  // namespace

std::vector<ReportPlace> python_places(std::span<const uint8_t> memory, uint32_t runtime) {
  std::vector<ReportPlace> places;
  if (runtime == 0) return places;
  const PythonMemory reader(memory, runtime);
  const uint32_t interpreter = reader.field(runtime, kFirstInterpreter);
  uint32_t frame = reader.field(reader.field(interpreter, kFirstThread), kCurrentFrame);
  uint32_t line_bytes_left = kMostLineBytes;
  for (size_t i = 0; i < kMostFrames && frame != 0; ++i) {
    auto place = place_of(reader, frame, line_bytes_left);
    const bool is_own = place && place->file.starts_with(kOwnFiles);
    if (is_own && place->function == kTurn) break;  // the frames outside of it are the interpreter's
    const bool is_shown = place && !is_own && !place->file.starts_with(kFrozenFiles);
    if (is_shown && places.size() == kMostPlaces)
      places.back() = *std::move(place);  // the outermost place is always reported
    else if (is_shown) places.push_back(*std::move(place));
    frame = reader.field(frame, kPreviousFrame);
  }
  return places;
}

}  // namespace membrane::sandbox
