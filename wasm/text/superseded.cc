#include "wasm/text/superseded.h"

namespace membrane::wasm {
namespace {

constexpr std::string_view kMemoryIndex = "a memory index is a number, in any of its encodings";
constexpr std::string_view kManyMemories = "a module may have several memories";
constexpr std::string_view kWideNumbers = "sizes of memories and tables, and offsets, are numbers of 64 bits";
constexpr std::string_view kEarlierGlobals = "a constant expression may read every earlier global";

struct Row {
  std::string_view file;
  uint32_t line;
  std::string_view message;
  std::string_view rule;
};
constexpr Row kRows[] = {
    {"address.wast", 213, "i32 constant", kWideNumbers},
    {"binary-leb128.wast", 217, "integer representation too long", kWideNumbers},
    {"binary-leb128.wast", 225, "integer representation too long", kWideNumbers},
    {"binary-leb128.wast", 404, "integer representation too long", kWideNumbers},
    {"binary-leb128.wast", 461, "integer representation too long", kWideNumbers},
    {"binary-leb128.wast", 525, "integer too large", kWideNumbers},
    {"binary-leb128.wast", 533, "integer too large", kWideNumbers},
    {"binary-leb128.wast", 541, "integer too large", kWideNumbers},
    {"binary-leb128.wast", 550, "integer too large", kWideNumbers},
    {"binary-leb128.wast", 730, "integer too large", kWideNumbers},
    {"binary-leb128.wast", 749, "integer too large", kWideNumbers},
    {"binary-leb128.wast", 843, "integer too large", kWideNumbers},
    {"binary-leb128.wast", 862, "integer too large", kWideNumbers},
    {"binary.wast", 222, "integer representation too long", kWideNumbers},
    {"binary.wast", 275, "integer too large", kWideNumbers},
    {"binary.wast", 283, "integer too large", kWideNumbers},
    {"binary.wast", 474, "integer representation too long", kWideNumbers},
    {"binary.wast", 482, "integer representation too long", kWideNumbers},
    {"binary.wast", 539, "integer representation too long", kWideNumbers},
    {"binary.wast", 603, "integer too large", kWideNumbers},
    {"binary.wast", 611, "integer too large", kWideNumbers},
    {"binary.wast", 619, "integer too large", kWideNumbers},
    {"binary.wast", 638, "integer too large", kWideNumbers},
    {"binary.wast", 732, "integer too large", kWideNumbers},
    {"binary.wast", 751, "integer too large", kWideNumbers},
    {"binary.wast", 856, "zero byte expected", kMemoryIndex},
    {"binary.wast", 876, "zero byte expected", kMemoryIndex},
    {"binary.wast", 896, "zero byte expected", kMemoryIndex},
    {"binary.wast", 915, "zero byte expected", kMemoryIndex},
    {"binary.wast", 934, "zero byte expected", kMemoryIndex},
    {"binary.wast", 954, "zero byte expected", kMemoryIndex},
    {"binary.wast", 973, "zero byte expected", kMemoryIndex},
    {"binary.wast", 992, "zero byte expected", kMemoryIndex},
    {"binary.wast", 1010, "zero byte expected", kMemoryIndex},
    {"binary.wast", 1028, "zero byte expected", kMemoryIndex},
    {"data.wast", 84, "unknown global", kEarlierGlobals},
    {"data.wast", 88, "unknown global", kEarlierGlobals},
    {"elem.wast", 151, "unknown global", kEarlierGlobals},
    {"elem.wast", 155, "unknown global", kEarlierGlobals},
    {"global.wast", 351, "unknown global", kEarlierGlobals},
    {"global.wast", 355, "unknown global", kEarlierGlobals},
    {"imports.wast", 482, "multiple memories", kManyMemories},
    {"imports.wast", 486, "multiple memories", kManyMemories},
    {"imports.wast", 490, "multiple memories", kManyMemories},
    {"memory.wast", 10, "multiple memories", kManyMemories},
    {"memory.wast", 11, "multiple memories", kManyMemories},
    {"memory.wast", 79, "i32 constant out of range", kWideNumbers},
    {"memory.wast", 83, "i32 constant out of range", kWideNumbers},
    {"memory.wast", 87, "i32 constant out of range", kWideNumbers},
    {"simd_address.wast", 143, "i32 constant", kWideNumbers},
    {"simd_address.wast", 151, "i32 constant", kWideNumbers},
    {"table.wast", 27, "i32 constant out of range", kWideNumbers},
    {"table.wast", 31, "i32 constant out of range", kWideNumbers},
    {"table.wast", 35, "i32 constant out of range", kWideNumbers},
};

}  // namespace

std::string_view superseded_by(std::string_view file, uint32_t line, std::string_view message) {
  for (const Row& row : kRows)
    if (row.file == file && row.line == line && row.message == message) return row.rule;
  return {};
}

}  // namespace membrane::wasm
