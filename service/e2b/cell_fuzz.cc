// Arbitrary bytes as a cell: the number of lines stays the same except in a whole-cell command, and a cell
// without commands stays as it is.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "service/e2b/cell.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace membrane::service::e2b;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::string flat = without_indentation(input);
  if (flat.size() > input.size()) std::abort();
  const PythonCell cell = python_cell(input);
  if (!cell.has_commands && cell.code != flat) std::abort();
  const auto lines = [](std::string_view text) { return std::ranges::count(text, '\n'); };
  if (lines(flat) != lines(input) || lines(cell.code) > lines(flat)) std::abort();
  if (input.find("%%") == input.npos && lines(cell.code) != lines(flat)) std::abort();
  return 0;
}
