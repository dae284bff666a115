#include "wasi/file_calls.h"

#include <algorithm>
#include <cstring>

#include "wasi/state.h"

namespace membrane::wasi {
namespace {

constexpr uint32_t kRoot = 3;  // the descriptor of "/"
constexpr Rights kReading =
    right::kFdRead | right::kFdSeek | right::kFdTell | right::kFdFilestatGet | right::kFdReaddir;
constexpr uint32_t kListedBytes = 64u << 10;   // per call of fd_readdir
constexpr uint32_t kMostReadBytes = 1u << 20;  // per call

}  // namespace

// -- the memory of a call -------------------------------------------------------------------

uint32_t FileCalls::room(size_t bytes) {
  constexpr size_t kAlignment = 8;
  const size_t at = (memory_.size() + kAlignment - 1) / kAlignment * kAlignment;
  memory_.resize(at + bytes);
  return static_cast<uint32_t>(at);
}

uint32_t FileCalls::place(std::string_view bytes) {
  const uint32_t at = room(bytes.size());
  std::ranges::copy(bytes, memory_.begin() + at);
  return at;
}

// Relative to the root. An empty path stays empty: it names nothing.
uint32_t FileCalls::place_path(std::string_view path) {
  const bool is_root = !path.empty() && path.find_first_not_of('/') == std::string_view::npos;
  while (path.starts_with('/')) path.remove_prefix(1);
  if (is_root) path = ".";
  path = path.substr(0, kMaxPathBytes + 1);
  path_bytes_ = static_cast<uint32_t>(path.size());
  return place(path);
}

template <typename T>
T FileCalls::load(uint32_t at) const {
  T value;
  std::memcpy(&value, memory_.data() + at, sizeof value);
  return value;
}

FileStat FileCalls::load_stat(uint32_t at) const {
  return {.device = load<uint64_t>(at),
          .inode = load<uint64_t>(at + 8),
          .type = load<FileType>(at + 16),
          .links = load<uint64_t>(at + 24),
          .size = load<uint64_t>(at + 32),
          .accessed_ns = load<uint64_t>(at + 40),
          .modified_ns = load<uint64_t>(at + 48),
          .changed_ns = load<uint64_t>(at + 56)};
}

Done FileCalls::call(std::string_view name, std::initializer_list<uint64_t> arguments) {
  const std::vector<uint64_t> slots(arguments);
  uint64_t result = 0;
  const host::HostMemory::Use use(guest_.host_memory(), memory_.size());
  end_ = system_.call_over(memory_, *find_function(name), guest_, slots, {&result, 1}).end;
  memory_.shrink_to_fit();
  if (end_ == End::kOutOfFuel || end_ == End::kWait) return fail(Errno::kAgain);
  const auto code = static_cast<Errno>(result);
  return code == Errno::kSuccess ? Done() : fail(code);
}

Done FileCalls::by_path(std::string_view name, std::string_view path) {
  memory_.clear();
  const uint32_t at = place_path(path);
  return call(name, {kRoot, at, path_bytes_});
}

// -- what is open ---------------------------------------------------------------------------

bool FileCalls::is_for_programs(uint32_t descriptor) const { return descriptor != kRoot; }

Answer<uint32_t> FileCalls::open(std::string_view path, const Opening& how) {
  memory_.clear();
  const uint32_t at = place_path(path), length = path_bytes_, number_at = room(sizeof(uint32_t));
  const uint32_t flags = (how.create ? oflag::kCreat : 0) | (how.exclusive ? oflag::kExcl : 0) |
                         (how.truncate ? oflag::kTrunc : 0);
  const Rights rights = how.write ? kFileRights : kReading;
  const Done opened = call("path_open", {kRoot, how.exclusive ? 0u : kSymlinkFollow, at, length, flags,
                                         rights, 0, how.append ? fdflag::kAppend : 0u, number_at});
  if (!opened) return fail(opened.error());
  const auto number = load<uint32_t>(number_at);
  const auto* const device = std::get_if<OpenDevice>(&system_.state().descriptors.find(number)->is);
  if (device == nullptr || device->device != Device::kMembrane) return number;
  // The caller already holds the door, and a nested request could close what the outer one uses.
  static_cast<void>(close(number));
  return fail(Errno::kNxio);
}

Done FileCalls::close(uint32_t descriptor) {
  memory_.clear();
  return is_for_programs(descriptor) ? call("fd_close", {descriptor}) : fail(Errno::kBadf);
}

Answer<std::string> FileCalls::read(uint32_t descriptor, uint32_t count, std::optional<uint64_t> offset) {
  if (!is_for_programs(descriptor)) return fail(Errno::kBadf);
  count = std::min(count, kMostReadBytes);  // reading is paid for, but allocating the buffer is not
  memory_.clear();
  const uint32_t vector_at = room(kIovecBytes), count_at = room(sizeof(uint32_t)), at = room(count);
  std::memcpy(memory_.data() + vector_at, &at, sizeof at);
  std::memcpy(memory_.data() + vector_at + sizeof at, &count, sizeof count);
  const Done done = offset ? call("fd_pread", {descriptor, vector_at, 1, *offset, count_at})
                           : call("fd_read", {descriptor, vector_at, 1, count_at});
  if (!done) return fail(done.error());
  return std::string(reinterpret_cast<const char*>(memory_.data()) + at, load<uint32_t>(count_at));
}

Answer<uint32_t> FileCalls::write(uint32_t descriptor, std::string_view bytes,
                                  std::optional<uint64_t> offset) {
  if (!is_for_programs(descriptor)) return fail(Errno::kBadf);
  memory_.clear();
  const uint32_t vector_at = room(kIovecBytes), count_at = room(sizeof(uint32_t)), at = place(bytes);
  const auto count = static_cast<uint32_t>(bytes.size());
  std::memcpy(memory_.data() + vector_at, &at, sizeof at);
  std::memcpy(memory_.data() + vector_at + sizeof at, &count, sizeof count);
  const Done done = offset ? call("fd_pwrite", {descriptor, vector_at, 1, *offset, count_at})
                           : call("fd_write", {descriptor, vector_at, 1, count_at});
  if (!done) return fail(done.error());
  return load<uint32_t>(count_at);
}

Done FileCalls::resize(uint32_t descriptor, uint64_t size) {
  memory_.clear();
  return is_for_programs(descriptor) ? call("fd_filestat_set_size", {descriptor, size}) : fail(Errno::kBadf);
}

// -- what is there --------------------------------------------------------------------------

Answer<FileStat> FileCalls::stat(uint32_t descriptor) {
  if (!is_for_programs(descriptor)) return fail(Errno::kBadf);
  memory_.clear();
  const uint32_t at = room(FileStat::kBytes);
  const Done done = call("fd_filestat_get", {descriptor, at});
  return done ? Answer<FileStat>(load_stat(at)) : fail(done.error());
}

Answer<FileStat> FileCalls::stat(std::string_view path, bool follow) {
  memory_.clear();
  const uint32_t path_at = place_path(path), at = room(FileStat::kBytes);
  const Done done =
      call("path_filestat_get", {kRoot, follow ? kSymlinkFollow : 0u, path_at, path_bytes_, at});
  return done ? Answer<FileStat>(load_stat(at)) : fail(done.error());
}

Answer<std::vector<FileCalls::Entry>> FileCalls::list(std::string_view path, uint64_t most_bytes) {
  memory_.clear();
  const uint32_t path_at = place_path(path), length = path_bytes_, number_at = room(sizeof(uint32_t));
  const Done opened = call("path_open", {kRoot, kSymlinkFollow, path_at, length, oflag::kDirectory,
                                         right::kFdReaddir, 0, 0, number_at});
  if (!opened) return fail(opened.error());
  const auto number = load<uint32_t>(number_at);
  std::vector<Entry> entries;
  Done done;
  uint64_t cookie = 0, bytes = 0;
  for (bool is_more = true; is_more;) {
    memory_.clear();
    const uint32_t count_at = room(sizeof(uint32_t)), at = room(kListedBytes);
    done = call("fd_readdir", {number, at, kListedBytes, cookie, count_at});
    if (!done) break;
    const auto used = load<uint32_t>(count_at);
    is_more = used == kListedBytes;
    for (uint32_t next = 0; used - next >= kDirentBytes;) {
      const auto name_bytes = load<uint32_t>(at + next + 16);
      if (used - next - kDirentBytes < name_bytes) break;  // truncated: the next call returns it whole
      const std::string name(reinterpret_cast<const char*>(memory_.data()) + at + next + kDirentBytes,
                             name_bytes);
      cookie = load<uint64_t>(at + next);
      bytes += sizeof(Entry) + name_bytes;
      if (name != "." && name != "..") entries.push_back({name, load<FileType>(at + next + 20)});
      next += kDirentBytes + name_bytes;
    }
    if (bytes > most_bytes) done = fail(Errno::kFbig);
    if (!done) break;
  }
  const End ended = end_;
  memory_.clear();
  // Runs even without fuel.
  Call closing{system_.state(), guest_, Memory(memory_), {}};
  wasi::close(closing, number);
  end_ = ended;
  if (!done) return fail(done.error());
  return entries;
}

// -- names ----------------------------------------------------------------------------------

Done FileCalls::rename(std::string_view from, std::string_view to) {
  memory_.clear();
  const uint32_t from_at = place_path(from), from_bytes = path_bytes_, to_at = place_path(to);
  return call("path_rename", {kRoot, from_at, from_bytes, kRoot, to_at, path_bytes_});
}

Done FileCalls::link(std::string_view from, std::string_view to) {
  memory_.clear();
  const uint32_t from_at = place_path(from), from_bytes = path_bytes_, to_at = place_path(to);
  return call("path_link", {kRoot, 0, from_at, from_bytes, kRoot, to_at, path_bytes_});
}

Done FileCalls::symlink(std::string_view target, std::string_view path) {
  memory_.clear();
  const std::string_view kept = target.substr(0, kMaxPathBytes + 1);
  const uint32_t target_at = place(kept), path_at = place_path(path);
  return call("path_symlink", {target_at, kept.size(), kRoot, path_at, path_bytes_});
}

Answer<std::string> FileCalls::read_link(std::string_view path) {
  memory_.clear();
  const uint32_t path_at = place_path(path), length = path_bytes_;
  const uint32_t count_at = room(sizeof(uint32_t)), at = room(kMaxPathBytes);
  const Done done = call("path_readlink", {kRoot, path_at, length, at, kMaxPathBytes, count_at});
  if (!done) return fail(done.error());
  return std::string(reinterpret_cast<const char*>(memory_.data()) + at, load<uint32_t>(count_at));
}

Done FileCalls::set_times(std::string_view path, uint64_t accessed_ns, uint64_t modified_ns) {
  memory_.clear();
  const uint32_t path_at = place_path(path);
  return call("path_filestat_set_times", {kRoot, kSymlinkFollow, path_at, path_bytes_, accessed_ns,
                                          modified_ns, fstflag::kAtim | fstflag::kMtim});
}

}  // namespace membrane::wasi
