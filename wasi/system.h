// WASI preview 1 for one instance: its descriptors, files, clock and randomness, and every function of
// wasi_snapshot_preview1 on them. For what each function does and refuses, see docs/wasi.md.
//
//   program ─▶ System ─┬─ an image, shared and read-only ─▶ files of its own, in memory, bounded
//                      ├─ granted directories ─▶ Broker (decides, acts, is journaled)
//                      └─ stdio, /dev/membrane, clock, randomness
//
// Nothing outside is accessible unless the policy grants it: without grants a System is a closed world, the same in
// every run. One directory is open from the start, "/" (descriptor 3), with everything below it.
//
// The cost of forking a System depends on its open descriptors, not on its files; it can be frozen into bytes and
// thawed in another process. Granted directories belong to the world, and have their current content.
//
// Ownership: a Config's pointers are borrowed and must outlive the System. Threads: one at a time; several threads
// may fork the same System concurrently while no call is in progress.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/random_stream.h"
#include "base/result.h"
#include "host/broker.h"
#include "host/dispatch.h"
#include "host/guest.h"
#include "policy/policy.h"
#include "wasi/file_tree.h"
#include "wasi/function.h"
#include "wasi/image.h"

namespace membrane::wasi {

// How a call ends for the program.
enum class End : uint8_t {
  kReturn,       // with its results
  kExit,         // the program has ended: exit_code()
  kOutOfFuel,    // nothing was done: add fuel and call again
  kOutOfOutput,  // the output that fits has been printed
  kWait,  // it reads from stdin, which is empty and waits: give_stdin() or close_stdin(), and call again
  kTrap,
};

struct Outcome {
  End end = End::kReturn;
  std::string message = {};  // the reason, for kTrap and kOutOfOutput
};

// The outside world of a System. Everything may be missing.
struct World {
  // Granted directories, the real clock, real entropy. A BrokerGate, so that requests are paid for and journaled.
  host::Broker* broker = nullptr;
  // Answers a request that the program wrote to /dev/membrane in one write. Missing: writing is ENXIO.
  std::function<std::string(std::string_view request)> device = nullptr;
  // Gets the program's output to stdout and stderr: `bytes` as written, and `text`, the part of it (and of earlier
  // bytes) that is complete UTF-8. False: the output limit is reached. Missing: Guest::print() gets the text.
  std::function<bool(host::Stream stream, std::string_view bytes, std::string_view text)> write = nullptr;
  // A stdin that waits must get its next bytes before the virtual clock advances, and before a non-blocking read
  // finds it empty: a program behaves the same whether its input has arrived already or not.
  bool stdin_comes_first = false;
  // Lets real time pass, for a sleep on the real clock. False: interrupted (the run is stopped, or its time is up).
  // Missing: sleeping on the real clock is ENOTSUP.
  std::function<bool(uint64_t ns)> wait = nullptr;
  // How a sleep passes: the clock alone advances, or `wait` lets real time pass, as on the real clock; or `sleep`
  // lets it pass, and returns false on failure (EIO). The virtual clock advances in any case.
  enum class Sleeping : uint8_t { kByClock, kAtOnce, kWaits, kAsks };
  Sleeping sleeping = Sleeping::kByClock;
  std::function<bool(uint64_t ns)> sleep = nullptr;
};

struct Config {
  std::vector<std::string> arguments;  // the first is the program's name
  std::vector<std::pair<std::string, std::string>> environment;
  std::string stdin_text;
  bool stdin_waits = false;                // an empty stdin makes a read wait (End::kWait) instead of ending
  const policy::Policy* policy = nullptr;  // its fs, time and random are used; null grants nothing
  std::optional<RandomStream::Key> random_key = {};  // for the seeded stream; absent: the policy's seed
  std::shared_ptr<const Image> image;                // null: an empty image
  FileQuota quota;                                   // for files that the program creates in memory
  World world;
};

// What a fork does not inherit from its parent.
struct ForkConfig {
  uint64_t fork_number =
      1;  // its random stream is derived from the parent's and this number; the same number, the same stream
  std::optional<std::string> stdin_text = {};  // absent: the rest of the parent's
  bool stdin_waits = false;
  const policy::Policy* policy = nullptr;
  World world = {};
  // Starts another run of the program over the same files: with its initial descriptors and environment, and these
  // arguments, the first of which is its name.
  bool starts_program = false;
  std::vector<std::string> arguments = {};
};

struct FileEntry {
  std::string path;
  FileType type = FileType::kUnknown;
  uint64_t size = 0;
};

struct State;

class System {
 public:
  // kInvalidArgument for arguments or names with NUL; kUnsupported for a grant that cannot be mounted because the
  // image has something else there.
  static Result<std::unique_ptr<System>> create(Config config);
  ~System();

  // `arguments` and `results` are the engine's slots, as many as the function's type has.
  Outcome call(const Function& function, host::Guest& guest, std::span<const uint64_t> arguments,
               std::span<uint64_t> results);

  // The same with pointers into memory other than the guest's (wasi/file_calls.h).
  Outcome call_over(std::span<uint8_t> memory, const Function& function, host::Guest& guest,
                    std::span<const uint64_t> arguments, std::span<uint64_t> results);

  // Accounts for the host memory that the files, the listings of open directories and the answers of devices take.
  // call() does so by itself; before the first call, and after put_file(), the guest's memory could grow into that
  // memory. False: there is not room for everything, and they hold all that is left.
  bool account_to(host::Guest& guest) const;

  // Whether the descriptor is standard output or standard error.
  [[nodiscard]] bool is_output(uint32_t descriptor) const;
  // The argument of proc_exit.
  [[nodiscard]] std::optional<uint32_t> exit_code() const;
  // The program has ended: prints an incomplete last character, and closes its open files of the host.
  void finish(host::Guest& guest);

  // kInvalidArgument for arguments with NUL.
  Result<std::unique_ptr<System>> fork(const ForkConfig& config) const;

  // Into bytes, and back, possibly in another process. Take the records first; lines of the report are not included.
  // kUnavailable when libcrypto is not installed (it computes the image's digest).
  [[nodiscard]] Result<std::vector<uint8_t>> freeze() const;
  // Uses the parts of the config that are not frozen: image, quota, policy, world. Errors: frozen.h, and those of
  // create().
  static Result<std::unique_ptr<System>> thaw(std::span<const uint8_t> bytes, Config config);

  // Lets time pass as a program's sleep does: at once on the virtual clock, unless the World says otherwise. False
  // when World::wait or World::sleep fails, or is missing.
  bool sleep(uint64_t ns);
  // The time added to the real clock by sleeps that took no real time. Not included in freeze(): a thawed system's
  // clock follows the world's again, except for a fork through bytes, which is given its parent's value.
  [[nodiscard]] uint64_t skipped_ns() const;
  void skip(uint64_t ns);  // call before it runs
  // Switches the seeded stream to one that is derived from its state and `seed`.
  void reseed(const RandomStream::Key& seed);

  void give_stdin(std::string_view bytes);
  void open_stdin();                            // an empty stdin waits from now on
  void drop_stdin();                            // drops the rest of stdin, and ends it
  void close_stdin();                           // stdin ends when it is empty, from now on
  [[nodiscard]] bool stdin_is_waiting() const;  // stdin is empty, but has not ended

  // Files of the own tree, whoever created them; host directories are not included. Returns those that differ from
  // the image, by path; at most kMaxListedPathBytes of paths, the rest is left out.
  static constexpr uint64_t kMaxListedPathBytes = 4 << 20;
  [[nodiscard]] std::vector<FileEntry> written_files() const;
  [[nodiscard]] host::HostResult<std::string> read_file(std::string_view path) const;
  // Reads a file as the program would, from its own tree or a grant: decided, paid by `guest`, and recorded in the
  // report.
  host::HostResult<std::string> load_file(host::Guest& guest, std::string_view path, uint64_t most_bytes);
  // Creates missing parent directories. Counts against the quota.
  host::HostResult<void> put_file(std::string_view path, std::string_view bytes);

  // The last operation that no grant allowed, with the grant that would allow it: the reason for an EACCES, EROFS or
  // ENOENT that the program saw. Null when there was none.
  [[nodiscard]] const host::HostError* last_denial() const;
  void set_last_denial(host::HostError denial);  // restores the one from before the freeze
  // Lines for the report: host files, when they are closed; other requests to the world, in order. Each is returned
  // once.
  std::vector<host::CallRecord> take_records();

  [[nodiscard]] State& state() { return *state_; }

 private:
  explicit System(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace membrane::wasi
