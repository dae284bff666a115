// A long-lived Linux sandbox: commands are started in it, its files are read and written, and it is frozen,
// kept and forked.
//
//   the owner ──one socket──► the kernel process ──► the platform's processes, in which guests run
//
// The kernel process answers the guests' system calls. It ends with its LiveComputer, whatever the guests do.
//
// Paths are the guest's, absolute, and resolved in its tree by the superuser. Errors from the tree are
// kNotFound, kDenied, kInvalidInput, kTooLong and kExhausted, with the path; kUnavailable for a lost kernel
// process.
//
// Threads: any. Calls wait for the kernel process's answer. Callbacks run on a thread of the LiveComputer's
// own; they may not call it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "linux/platform/trap/host_file.h"
#include "linux/sandbox/computer.h"

namespace membrane::linux {

struct LiveSpec {
  // Path of an image file (linux/image/layer.h); "" with `kept`: the path recorded when that file was
  // written.
  std::string image;
  int image_file = -1;  // that file, open for reading, in case the path was replaced. Borrowed like `kept`
  // A file that keep() wrote: the sandbox resumes from it. Borrowed until create() has returned; its bytes
  // must not change while the sandbox lives.
  int kept = -1;
  bool kept_files_only = false;  // ignore the processes in `kept`
  std::string host_name = "membrane";
  ComputerLimits limits;  // memory, disk and tasks; output and wall are per command
  // As in Computer. A sandbox that is restored with its processes is as deterministic as it was, whatever
  // this says.
  std::optional<Determinism> deterministic;
  std::string platform;       // "trap", "kvm"; "" for the faster one of this machine
  bool stands_still = false;  // no guest runs before thaw(): to check whether it can resume
  int network = -1;           // the guests' network (linux/network/); -1: none. Borrowed like `kept`
  std::vector<MountedDirectory> directories;
  // For start_computer() only: called when the kernel process has been forked from the caller, so that it
  // inherits nothing that is created here, and before it has the network. May be null.
  std::function<Status()> on_forked = nullptr;
};

struct CommandSpec {
  std::vector<std::string> arguments;    // the program, by name or path, and its arguments
  std::vector<std::string> environment;  // NAME=VALUE
  std::string directory = "/root";
  uint32_t user = 0, group = 0;
  // If set, the standard streams are a terminal of the sandbox's, the command leads its session, and
  // everything that it prints is output.
  std::optional<TerminalSize> terminal;
};

struct CommandEnd {
  bool was_signalled = false;
  int status = 0;  // exit code, or the signal
  bool was_out_of_memory = false;
  LimitsReached reached = {};           // while it ran, by any process
  uint64_t user_us = 0, system_us = 0;  // of the command and its children that were waited for
};

// A program that was started from outside, with its children. If this is destroyed before the program was
// killed, the program continues: its input ends, and its output is dropped. A terminal is hung up, so its
// processes get SIGHUP. May outlive its LiveComputer.
class Command {
 public:
  virtual ~Command() = default;
  [[nodiscard]] virtual int process_id() const = 0;  // as seen inside
  // Waits until there is room. Errors: kUnavailable when nobody will read it.
  virtual Status write_input(std::string_view bytes) = 0;
  virtual void end_input() = 0;  // for a terminal: types its end-of-file character
  virtual void resize(TerminalSize size) = 0;
  // Signals its process group; with SIGKILL, all processes of its session.
  virtual void signal(int number) = 0;
  // Returns its end, once all of its output was passed to the callbacks; nothing on timeout.
  virtual std::optional<CommandEnd> wait(std::optional<std::chrono::steady_clock::time_point> until) = 0;
};

struct CommandEvents {
  std::function<void(std::string_view)> on_output, on_error;  // null: dropped
  std::function<void(const CommandEnd&)> on_end;              // null: wait() tells
};

struct FileFacts {
  std::string path;
  uint32_t mode = 0;  // with its type, as in stat()
  uint32_t user = 0, group = 0;
  uint64_t size = 0, links = 0;
  int64_t modified_ns = 0;  // since 1970
  std::string target;       // of a symbolic link
};

// How a path compares with the sandbox's image; times and link counts are ignored. A path whose type changed
// counts as modified.
enum class Change : uint8_t { kAdded, kModified, kRemoved };
struct ChangedPath {
  std::string path;
  Change change = Change::kModified;
  uint32_t mode = 0;  // current; for a removed path, the previous one
};

struct ComputerUsage {
  uint64_t memory_bytes = 0, memory_peak_bytes = 0, disk_bytes = 0;
  int tasks = 0;
  uint64_t preemptions = 0;  // of a deterministic one: how often it was not (Kernel::preemptions())
  std::map<std::string, uint64_t> absent_calls;
};

class LiveComputer {
 public:
  virtual ~LiveComputer() = default;  // as end()
  // Kills everything that runs in it, and its kernel process, whatever that does. Pending and later calls
  // fail with kUnavailable.
  virtual void end() = 0;

  [[nodiscard]] virtual const std::string& platform() const = 0;
  [[nodiscard]] virtual const std::vector<std::string>& missing_walls() const = 0;

  virtual Result<std::unique_ptr<Command>> start(const CommandSpec& spec, CommandEvents events) = 0;
  // Attaches to a command that was running when the sandbox was kept, by its process id.
  virtual Result<std::unique_ptr<Command>> attach(int process_id, CommandEvents events) = 0;

  // -- files
  virtual Result<FileFacts> stat(const std::string& path, bool follows_links) = 0;
  virtual Result<std::vector<FileFacts>> list(const std::string& path) = 0;
  virtual Result<std::string> read_file(const std::string& path, uint64_t offset, uint64_t most_bytes) = 0;
  // Writes a whole file, replacing an existing one and creating missing parent directories.
  virtual Status write_file(const std::string& path, std::string_view bytes, uint32_t mode) = 0;
  // The same for bytes that come in pieces; an empty piece ends the file. Pages of zeros take no room.
  // Errors: also those of `next`; the existing file then stays.
  using Pieces = std::function<Result<std::string>()>;
  virtual Status write_pieces(const std::string& path, const Pieces& next, uint32_t mode) = 0;
  virtual Status make_directory(const std::string& path, uint32_t mode) = 0;
  virtual Status make_link(const std::string& path, const std::string& target) = 0;
  virtual Status set_owner(const std::string& path, uint32_t user, uint32_t group) = 0;
  virtual Status set_mode(const std::string& path, uint32_t mode) = 0;
  virtual Status move(const std::string& from, const std::string& to) = 0;
  virtual Status remove(const std::string& path, bool with_contents) = 0;
  // The differences from the image, by path. Nothing below a removed directory is listed.
  virtual Result<std::vector<ChangedPath>> changes() = 0;
  // Writes the whole tree as an image file, with the configuration `config` (linux/image/config.h), into a
  // file that is open for reading and writing. The same tree gives the same bytes, which include modification
  // times. Guests wait meanwhile.
  virtual Status save_image(int file, const std::string& config) = 0;
  // Clamps the times of files that differ from the image to this one, since 1970.
  virtual Status clamp_times(int64_t latest_ms) = 0;

  // -- as a whole
  // No guest runs between the two.
  virtual Status freeze() = 0;
  virtual Status thaw() = 0;
  // Writes the whole sandbox at one moment (linux/kept/) into a file that is open for reading and writing;
  // the sandbox then continues. kFiles: without its processes, to start afresh over the files. A memory file
  // that may be sealed is sealed, so that nobody can change what was kept. Errors: kExhausted for a sandbox
  // that takes too long to keep, which continues.
  enum class Keep : uint8_t { kAll, kFiles };
  virtual Status keep(int file, Keep what) = 0;
  virtual Result<ComputerUsage> usage() = 0;
};

// Creates live computers from kernel processes that are kept ready. It is a process of its own, forked on
// creation: the caller must have one thread then, and may have any number afterwards.
class ComputerSource {
 public:
  static Result<std::unique_ptr<ComputerSource>> create(size_t most_ready);
  virtual ~ComputerSource() = default;  // its computers continue to run
  // Its process, for a control group: processes that it forks from then on are in the group too.
  [[nodiscard]] virtual pid_t process() const = 0;
  // From now on it makes kernel processes ready in advance.
  virtual void make_ready() = 0;
  // Errors: kNotFound for a missing image; kInvalidInput for damaged kept bytes; kUnsupported where no
  // platform can be started, or not the demanded one.
  virtual Result<std::unique_ptr<LiveComputer>> create(const LiveSpec& spec) = 0;
};

// A memory file for LiveComputer::keep(), which seals it. Errors: kExhausted.
Result<HostFile> memory_to_keep_in();

// Starts one computer without a source: its kernel process is forked from the caller, which must have one
// thread until then. Errors: those of ComputerSource::create().
Result<std::unique_ptr<LiveComputer>> start_computer(const LiveSpec& spec);

}  // namespace membrane::linux
