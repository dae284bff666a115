// WASI preview 1 for one instance: its descriptors, files, clock and randomness, and every function of
// wasi_snapshot_preview1 over them. What each does here, and what it refuses: docs/wasi.md.
//
//   program ─▶ System ─┬─ an image, shared and read-only ─▶ files of its own, in memory, bounded
//                      ├─ granted directories ─▶ Broker (decides, acts, is journaled)
//                      └─ stdio, /dev/membrane, clock, randomness
//
// Nothing of the outside is there unless the policy grants it: without grants a System is a closed world, the
// same in every run. One directory is open from the start, "/" (descriptor 3), with everything below it.
//
// A System forks at the price of its open descriptors, whatever its files; it freezes into bytes, and thaws in
// another process. What granted directories hold is the world's, and is found as it is.
//
// Ownership: a Config's pointers are borrowed and must outlive the System. Threads: one at a time; several may
// fork the same System at once, when none is in a call.
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
  kExit,         // the program is over: exit_code()
  kOutOfFuel,    // nothing was done: with more fuel, call again
  kOutOfOutput,  // what fits has been printed
  kWait,  // it reads from stdin, which is empty and waits: give_stdin() or close_stdin(), and call again
  kTrap,
};

struct Outcome {
  End end = End::kReturn;
  std::string message = {};  // why, of kTrap and kOutOfOutput
};

// Whom a System asks. All may be missing.
struct World {
  // Granted directories, the real clock, real entropy. A BrokerGate, so that they are paid for and journaled.
  host::Broker* broker = nullptr;
  // Answers a request that the program wrote to /dev/membrane with one write. Missing: writing is ENXIO.
  std::function<std::string(std::string_view request)> device = nullptr;
  // Hears what the program writes to stdout and stderr: `bytes` as they came, and `text`, what can be said of them (and
  // of those before) as UTF-8. False: the output limit is reached. Missing: Guest::print() is told the text.
  std::function<bool(host::Stream stream, std::string_view bytes, std::string_view text)> write = nullptr;
  // Stdin that waits has its next bytes before the virtual clock moves on, and before a read that does not block says
  // that there are none: a program sees the same whether its input is there already or yet to come.
  bool stdin_comes_first = false;
  // Lets real time pass, for a sleep on the real clock. False: not to its end (the run is stopped, or its time
  // is up). Missing: sleeping on the real clock is ENOTSUP.
  std::function<bool(uint64_t ns)> wait = nullptr;
  // How a sleep passes: the clock alone moves on by it, or `wait` lets real time pass, as on the real clock; or `sleep` lets it
  // pass, and gives false where it cannot (EIO). On the virtual clock it has passed then in any case.
  enum class Sleeping : uint8_t { kByClock, kAtOnce, kWaits, kAsks };
  Sleeping sleeping = Sleeping::kByClock;
  std::function<bool(uint64_t ns)> sleep = nullptr;
};

struct Config {
  std::vector<std::string> arguments;  // the first is the program's name
  std::vector<std::pair<std::string, std::string>> environment;
  std::string stdin_text;
  bool stdin_waits = false;  // when it is empty, a read waits (End::kWait) instead of seeing the end
  const policy::Policy* policy = nullptr;            // its fs, time and random; null grants nothing
  std::optional<RandomStream::Key> random_key = {};  // of the seeded stream; nothing: the policy's seed
  std::shared_ptr<const Image> image;                // null: an empty one
  FileQuota quota;                                   // of what the program makes in memory
  World world;
};

// What a fork is given anew; all else it has from its parent.
struct ForkConfig {
  uint64_t fork_number =
      1;  // its random stream follows from the parent's and this; the same number, the same stream
  std::optional<std::string> stdin_text = {};  // nothing: what the parent has left
  bool stdin_waits = false;
  const policy::Policy* policy = nullptr;
  World world = {};
  // Another run of the program, over the same files: it has the descriptors and the environment that it began with, and
  // these arguments, the first of which is its name.
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
  // kInvalidArgument for arguments or names with NUL; kUnsupported for a grant that cannot be mounted, since the image
  // has something else there.
  static Result<std::unique_ptr<System>> create(Config config);
  ~System();

  // `arguments` and `results` are the engine's slots, as many as the function's type has.
  Outcome call(const Function& function, host::Guest& guest, std::span<const uint64_t> arguments,
               std::span<uint64_t> results);

  // The same with pointers into other memory than the guest's (wasi/file_calls.h).
  Outcome call_over(std::span<uint8_t> memory, const Function& function, host::Guest& guest,
                    std::span<const uint64_t> arguments, std::span<uint64_t> results);

  // Tells how much of the host's memory the files, the listings of open directories and the answers of devices take.
  // call() does so by itself; before the first one, and after put_file(), the memory of the guest could grow into what
  // they have. False: there is not room for all, and they have all that there is.
  bool account_to(host::Guest& guest) const;

  // Whether the descriptor is standard output or standard error.
  [[nodiscard]] bool is_output(uint32_t descriptor) const;
  // What proc_exit was given.
  [[nodiscard]] std::optional<uint32_t> exit_code() const;
  // The program is over: prints what an unfinished character left, and closes what it has open of the host.
  void finish(host::Guest& guest);

  // kInvalidArgument for arguments with NUL.
  Result<std::unique_ptr<System>> fork(const ForkConfig& config) const;

  // Into bytes, and back: another process may go on. Take the records first; lines of the report are not in it.
  // kUnavailable when libcrypto is not installed (it makes the image's digest).
  [[nodiscard]] Result<std::vector<uint8_t>> freeze() const;
  // Of the config counts what is not frozen: image, quota, policy, world. Errors: frozen.h, and those of create().
  static Result<std::unique_ptr<System>> thaw(std::span<const uint8_t> bytes, Config config);

  // Lets time pass as a sleep of the program's does: at once on the virtual clock, unless the World says otherwise. False when
  // World::wait or World::sleep says so, or there is none.
  bool sleep(uint64_t ns);
  // What sleeps that took no real time have added to the real clock. It is not among the bytes of freeze(): a thawed system's clock
  // is the world's again, but for a fork by way of bytes, which is given what its parent has.
  [[nodiscard]] uint64_t skipped_ns() const;
  void skip(uint64_t ns);  // before it runs
  // The seeded stream goes on as another, which follows from what it was and `seed`.
  void reseed(const RandomStream::Key& seed);

  void give_stdin(std::string_view bytes);
  void open_stdin();                            // what is empty waits from now on
  void drop_stdin();                            // what is left of it goes, and it is at its end
  void close_stdin();                           // what is empty is at its end from now on
  [[nodiscard]] bool stdin_is_waiting() const;  // it is empty, and not at its end

  // Files of the own tree, whoever made them; host directories are not looked into.
  // What is not as the image has it, by path; at most kMaxListedPathBytes of paths, those beyond are left out.
  static constexpr uint64_t kMaxListedPathBytes = 4 << 20;
  [[nodiscard]] std::vector<FileEntry> written_files() const;
  [[nodiscard]] host::HostResult<std::string> read_file(std::string_view path) const;
  // As the program would read it, be it its own or a grant's: decided, paid by `guest`, and told in the report.
  host::HostResult<std::string> load_file(host::Guest& guest, std::string_view path, uint64_t most_bytes);
  // Directories above it are made. Counts in the quota.
  host::HostResult<void> put_file(std::string_view path, std::string_view bytes);

  // The last thing that no grant allowed, with the grant that would: the reason of an EACCES, EROFS or ENOENT
  // that the program saw. Null when there was none.
  [[nodiscard]] const host::HostError* last_denial() const;
  void set_last_denial(host::HostError denial);  // of before it was frozen
  // Lines for the report: a host file that was opened, when it is closed; other requests to the world as they
  // were made. Handed out once.
  std::vector<host::CallRecord> take_records();

  [[nodiscard]] State& state() { return *state_; }

 private:
  explicit System(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace membrane::wasi
