// Untrusted patches for a few files. A patch that is half applied, or leaves the directory, aborts.
#include <cstdlib>
#include <string>

#include "computers/fake_computer_testing.h"
#include "computers/patch.h"

namespace membrane::computers {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 1u << 16) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const FakeComputer::Files files = {{"/d/", ""}, {"/d/a", "1\n2\n3\n"}, {"/d/b", "x"}, {"/kept", "kept"}};
  FakeComputer computer(files);
  const auto applied =
      apply_patch(computer, text, "/d", {.text_bytes = 1u << 16, .files = 20, .file_bytes = 1u << 20});
  if (applied)
    for (const std::string& path : applied->changed)
      if (!path.starts_with("/d/")) std::abort();
  if (computer.read_file("/kept", 0, 100).value_or("") != "kept") std::abort();
  if (!applied && computer.read_file("/d/a", 0, 100).value_or("") != "1\n2\n3\n") std::abort();
  return 0;
}

}  // namespace membrane::computers
