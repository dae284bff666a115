#include "wasm/text/superseded.h"

namespace membrane::wasm {
namespace {

constexpr std::string_view kMemoryIndex = "a memory index is a number, in any of its encodings";
constexpr std::string_view kManyMemories = "a module may have several memories";
constexpr std::string_view kEarlierGlobals = "a constant expression may read every earlier global";

struct Row {
  std::string_view file;
  uint32_t line;
  std::string_view message;
  std::string_view rule;
};
constexpr Row kRows[] = {
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
};

}  // namespace

std::string_view superseded_by(std::string_view file, uint32_t line, std::string_view message) {
  for (const Row& row : kRows)
    if (row.file == file && row.line == line && row.message == message) return row.rule;
  return {};
}

}  // namespace membrane::wasm
