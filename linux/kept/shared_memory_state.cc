#include "linux/kept/shared_memory_state.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "linux/image/layer.h"

namespace membrane::linux {
namespace {

struct Run {
  uint64_t offset = 0, length = 0, at = 0;
};

void copy_pages(int from, uint64_t offset, std::span<std::byte> to) {
  const ssize_t got = pread(from, to.data(), to.size(), static_cast<off_t>(offset));
  std::ranges::fill(to.subspan(got < 0 ? 0 : static_cast<size_t>(got)), std::byte{});
}

}  // namespace

void SharedMemoryState::write(const SharedMemory& memory, StateWriter& state, PageWriter& pages) {
  struct stat facts = {};
  fstat(memory.fd(), &facts);
  const auto length = static_cast<uint64_t>(facts.st_size);
  std::vector<Run> runs;
  for (uint64_t offset = 0; offset < length;) {
    const off_t data = lseek(memory.fd(), static_cast<off_t>(offset), SEEK_DATA);
    if (data < 0) break;
    const off_t hole = lseek(memory.fd(), data, SEEK_HOLE);
    offset = static_cast<uint64_t>(data);
    const uint64_t end = hole < 0 ? length : static_cast<uint64_t>(hole);
    runs.push_back({offset, end - offset, pages.end()});
    while (offset < end) {
      const auto room = pages.room((end - offset + kPageBytes - 1) / kPageBytes);
      copy_pages(memory.fd(), offset, room);
      offset += room.size();
    }
  }
  state(length);
  state(memory.description());
  state(static_cast<uint32_t>(runs.size()));
  for (const Run& run : runs) {
    state(run.offset);
    state(run.length);
    state(run.at);
  }
}

FileRef SharedMemoryState::read(SandboxReader& from) {
  Kernel& kernel = from.kernel;
  StateReader& state = from.state;
  const auto length = state.get<uint64_t>();
  const auto description = state.get<std::string>();
  state.require(length > 0 && length < uint64_t{1} << 46 && length % kPageBytes == 0);
  if (!state.is_good()) return nullptr;
  const auto memory = kernel.shared_memories.make(length, description);
  state.require(memory.has_value());
  for (size_t left = state.count(24); left > 0 && state.is_good(); --left) {
    const Run run = {state.get<uint64_t>(), state.get<uint64_t>(), state.get<uint64_t>()};
    const std::span<const std::byte> all = from.pages->bytes();
    state.require(run.offset <= length && run.length <= length - run.offset && run.at <= all.size() &&
                  run.length <= all.size() - run.at);
    from.shared_bytes += run.length;
    state.require(from.shared_bytes <= kernel.options().limits.memory_bytes);
    if (!state.is_good()) return nullptr;
    state.require(write_at((*memory)->fd(), run.offset, all.subspan(run.at, run.length)) == 0);
  }
  return state.is_good() ? FileRef(*memory) : nullptr;
}

}  // namespace membrane::linux
