// Keys, output, reads and changes of modes in any order: the limits hold, and what is readable can be read.
#include <termios.h>
#include <span>

#include <array>
#include <cstdlib>
#include <cstring>

#include "linux/files/line_discipline.h"
#include "linux/files/memory_buffer.h"

namespace {

using namespace membrane::linux;

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  LineDiscipline line([](int) {});
  auto left = std::as_bytes(std::span(data, size));
  while (left.size() >= 2) {
    const auto kind = static_cast<unsigned>(left[0]);
    const size_t length = std::min(left.size() - 2, static_cast<size_t>(left[1]));
    const auto bytes = left.subspan(2, length);
    left = left.subspan(2 + length);
    switch (kind % 5) {
      case 0: {
        const bool had_room = line.has_input_room();
        const size_t taken = line.receive(bytes);
        require(taken <= length && (had_room || taken == 0));
        break;
      }
      case 1: {
        MemorySource source(bytes);
        auto count = line.write(source);
        require(!count || *count <= length);
        break;
      }
      case 2: {
        TerminalModes modes = line.modes();
        std::memcpy(&modes, bytes.data(), std::min(length, sizeof modes));
        line.set_modes(modes);
        break;
      }
      case 3: {
        std::array<std::byte, 256> room;
        MemoryTarget target(std::span(room).first(length));
        const bool was_readable = line.is_readable();
        auto count = line.read(target, true);
        require(!was_readable || count);
        require(!count || *count <= length);
        break;
      }
      default: line.output.drop(length);
    }
    require(line.output.size() <= LineDiscipline::kMostOutput);
    require(line.readable_bytes() <= LineDiscipline::kMostInput);
  }
  return 0;
}
