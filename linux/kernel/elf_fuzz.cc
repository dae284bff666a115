// Untrusted programs: their headers are read or refused.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "linux/kernel/elf.h"
#include "linux/kernel/memory.h"

namespace membrane::linux {

namespace {

class Bytes final : public Node {
 public:
  explicit Bytes(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  Attributes attributes() override { return {.mode = S_IFREG | 0755, .size = bytes_.size()}; }
  Try<size_t> read(uint64_t offset, std::span<std::byte> to) override {
    if (offset >= bytes_.size()) return size_t{0};
    const size_t size = std::min<size_t>(to.size(), bytes_.size() - offset);
    std::memcpy(to.data(), bytes_.data() + offset, size);
    return size;
  }

 private:
  std::span<const uint8_t> bytes_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Bytes node({data, size});
  const auto program = read_elf(node);
  if (!program) return 0;
  uint64_t end = program->lowest;
  for (const ElfSegment& each : program->segments) {
    if (page_down(each.address) < end && end != program->lowest) std::abort();
    if (each.file_size > each.memory_size) std::abort();
    end = page_up(each.address + each.memory_size);
  }
  if (end != program->end || program->end < program->lowest) std::abort();
  return 0;
}

}  // namespace membrane::linux
