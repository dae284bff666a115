// What stands behind a System, and what its functions share. Only files of wasi/ include this.
//
// Threads: one at a time.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "host/random.h"
#include "wasi/descriptors.h"
#include "wasi/memory.h"
#include "wasi/system.h"
#include "wasi/text_stream.h"
#include "wasi/virtual_clock.h"

namespace membrane::wasi {

struct State {
  State(std::unique_ptr<FileTree> files_of_it, RandomStream stream)
      : files(std::move(files_of_it)), random(std::move(stream)) {}

  std::vector<std::string> arguments;
  std::vector<std::string> environment;  // "NAME=value"
  policy::Policy grants;                 // fs, time and random; nothing else is looked at
  World world;

  std::unique_ptr<FileTree> files;
  Descriptors descriptors;
  std::string stdin_text;
  size_t stdin_at = 0;
  bool stdin_waits = false;
  TextStream out, err;
  VirtualClock clock;
  uint64_t real_start_ns = 0;  // the first reading of the real monotonic clock
  uint64_t real_monotonic_ns = 0;
  uint64_t real_now_ns = 0;  // the last reading of the real clock, for the times of files
  static constexpr uint64_t kMostSkippedNs = uint64_t{1} << 62;
  uint64_t skipped_ns = 0;  // what sleeps that took no real time have added to the real clock
  RandomStream random;
  std::optional<uint32_t> exit_code;

  std::optional<host::HostError> last_denial;
  std::vector<host::CallRecord> records;
  uint64_t record_bytes = 0;  // of their texts

  // Keeps a line for the report until it is taken. What is beyond the limits of a report is left out.
  void note(host::CallRecord record);
  // For the times of files: reading it moves no clock. On the real one it is when that was looked at last.
  [[nodiscard]] uint64_t file_time_ns() const;
  // Lets a sleep pass. ENOTSUP where nobody can let time pass, EINTR where the run is to end, EIO where who was asked failed.
  Done let_pass(uint64_t ns);
  // Looks at the real clock. Nothing: it cannot be looked at.
  std::optional<uint64_t> read_real_clock();
  [[nodiscard]] uint64_t start_ns() const;
};

// One call: the program's arguments and memory, and how it ends.
struct Call {
  State& state;
  host::Guest& guest;
  Memory memory;
  std::span<const uint64_t> arguments;
  Abi abi = Abi::kPreview1;
  Outcome outcome = {};
  uint64_t given_bytes = 0;  // to the program: owed afterwards

  [[nodiscard]] uint32_t u32(size_t index) const { return static_cast<uint32_t>(arguments[index]); }
  [[nodiscard]] uint64_t u64(size_t index) const { return arguments[index]; }

  // EBADF, or ENOTCAPABLE when one of the rights is missing.
  [[nodiscard]] Answer<Descriptor*> descriptor(size_t index, Rights needed = 0) const;
  // One of a directory, else ENOTDIR; and the path that stands at the argument `path`.
  struct At {
    Descriptor* directory;
    Place place;
    std::string path;  // a copy: the program's memory may be written in between
    bool to_write = false;
  };
  [[nodiscard]] Answer<At> at(size_t directory, size_t path, Rights needed) const;
  Answer<Walked> walk_to(const At& at, LastLink last);
};

// The functions, each in the file that its name's beginning tells.
#define WASI(name, params, before) Done name(Call& call);
namespace functions_of {
#include "wasi/preview1.def"
}
#undef WASI

// Hands what the program wrote to World::write, or else prints it. False: the output limit is reached.
[[nodiscard]] inline bool write_text(const State& state, host::Guest& guest, host::Stream stream,
                                     std::string_view bytes, std::string_view text) {
  return state.world.write ? state.world.write(stream, bytes, text)
                           : text.empty() || guest.print(stream, text);
}
// From the seeded stream, or the real one when it is granted.
Done fill_random(Call& call, std::span<uint8_t> to);
// Whether the call would only wait for stdin. Asked before it is paid for.
bool would_wait(FunctionId id, const Call& call);

// The time of a file that the program makes, names or opens to write: where the real clock is granted, as it is now. What is
// written afterwards has the time at which the clock was looked at last, so that writing is no request to the host.
uint64_t new_file_time_ns(Call& call);

// Written as fd_filestat_get and path_filestat_get tell it.
Done write_stat(const Call& call, uint32_t at, const FileStat& stat);
// When nobody names it or has it open any more, it goes.
void release_if_unused(State& state, Inode inode);
// EINVAL for a combination that cannot be.
struct NewTimes {
  std::optional<uint64_t> accessed_ns, modified_ns;
};
Answer<NewTimes> new_times(Call& call, uint64_t accessed_ns, uint64_t modified_ns, uint32_t flags);
Done set_times(Call& call, const Place& place, const NewTimes& times);
Done resize(Call& call, Descriptor& descriptor, uint64_t size);
// What it kept of the host's memory is given back.
void close(Call& call, uint32_t number);
// Keeps the listing while its directory is being read. Where the guest's share of the host's memory has no room,
// listings of other directories are forgotten first, and read again when they are needed. ENOMEM when that is not
// enough.
Done keep_listing(Call& call, OpenDirectory& directory, std::shared_ptr<const Listing> listing);

inline constexpr std::string_view kPreopenedName = "/";

}  // namespace membrane::wasi
