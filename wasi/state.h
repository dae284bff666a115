// The implementation of a System, shared by its functions. Only files of wasi/ include this.
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
  policy::Policy grants;                 // only fs, time and random are used
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
  uint64_t skipped_ns = 0;  // added to the real clock by sleeps that took no real time
  RandomStream random;
  std::optional<uint32_t> exit_code;

  std::optional<host::HostError> last_denial;
  std::vector<host::CallRecord> records;
  uint64_t record_bytes = 0;  // size of the texts in the records

  // Keeps a line for the report until it is taken. Lines beyond the limits of a report are dropped.
  void note(host::CallRecord record);
  // The time for timestamps of files, without advancing a clock. On the real clock, the time of its last reading.
  [[nodiscard]] uint64_t file_time_ns() const;
  // Lets a sleep pass. ENOTSUP if the World cannot let time pass, EINTR if the run must end, EIO if the World's
  // function failed.
  Done let_pass(uint64_t ns);
  // Reads the real clock. Nothing: it cannot be read.
  std::optional<uint64_t> read_real_clock();
  [[nodiscard]] uint64_t start_ns() const;
};

// A call in progress: the program's arguments and memory, and the outcome.
struct Call {
  State& state;
  host::Guest& guest;
  Memory memory;
  std::span<const uint64_t> arguments;
  Abi abi = Abi::kPreview1;
  Outcome outcome = {};
  uint64_t given_bytes = 0;  // returned to the program: paid afterwards

  [[nodiscard]] uint32_t u32(size_t index) const { return static_cast<uint32_t>(arguments[index]); }
  [[nodiscard]] uint64_t u64(size_t index) const { return arguments[index]; }

  // EBADF, or ENOTCAPABLE when one of the rights is missing.
  [[nodiscard]] Answer<Descriptor*> descriptor(size_t index, Rights needed = 0) const;
  // The descriptor of a directory, else ENOTDIR; and the path in the argument `path`.
  struct At {
    Descriptor* directory;
    Place place;
    std::string path;  // a copy: the program's memory may change meanwhile
    bool to_write = false;
  };
  [[nodiscard]] Answer<At> at(size_t directory, size_t path, Rights needed) const;
  Answer<Walked> walk_to(const At& at, LastLink last);
};

// The functions, each in the file named by its prefix.
#define WASI(name, params, before) Done name(Call& call);
namespace functions_of {
#include "wasi/preview1.def"
}
#undef WASI

// Passes the program's output to World::write, or else prints it. False: the output limit is reached.
[[nodiscard]] inline bool write_text(const State& state, host::Guest& guest, host::Stream stream,
                                     std::string_view bytes, std::string_view text) {
  return state.world.write ? state.world.write(stream, bytes, text)
                           : text.empty() || guest.print(stream, text);
}
// From the seeded stream, or from real entropy if it is granted.
Done fill_random(Call& call, std::span<uint8_t> to);
// Whether the call would only wait for stdin. Checked before it is paid for.
bool would_wait(FunctionId id, const Call& call);

// The timestamp of a file that the program creates, names or opens for writing: if the real clock is granted, the
// current time. Later writes use the time at which the clock was last read, so that writing is not a request to the
// host.
uint64_t new_file_time_ns(Call& call);

// In the form of fd_filestat_get and path_filestat_get.
Done write_stat(const Call& call, uint32_t at, const FileStat& stat);
// Removes the node if it has no name and is not open.
void release_if_unused(State& state, Inode inode);
// EINVAL for an invalid combination.
struct NewTimes {
  std::optional<uint64_t> accessed_ns, modified_ns;
};
Answer<NewTimes> new_times(Call& call, uint64_t accessed_ns, uint64_t modified_ns, uint32_t flags);
Done set_times(Call& call, const Place& place, const NewTimes& times);
Done resize(Call& call, Descriptor& descriptor, uint64_t size);
// Also returns the host memory that it held.
void close(Call& call, uint32_t number);
// Keeps the listing while its directory is being read. If the guest's share of host memory has no room, listings of
// other directories are dropped first, and read again when needed. ENOMEM when that is not enough.
Done keep_listing(Call& call, OpenDirectory& directory, std::shared_ptr<const Listing> listing);

inline constexpr std::string_view kPreopenedName = "/";

}  // namespace membrane::wasi
