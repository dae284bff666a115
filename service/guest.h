// A sandbox's program, wherever it runs: the only interface through which the lifecycle (sandboxes.h) uses
// guests.
//
// Threads: one thread at a time uses a Guest; any may call stop(), and exec() of a Linux guest. Guests: any.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "computers/patch_budget.h"
#include "host/egress/http_egress.h"
#include "linux/platform/trap/host_file.h"
#include "linux/sandbox/live_computer.h"
#include "policy/policy.h"
#include "sandbox/receipt.h"
#include "sandbox/report.h"
#include "sandbox/sandbox.h"
#include "service/errors.h"
#include "wasi/owner_files.h"
#include "worker/guests.h"

namespace membrane::computers {
class Authority;        // computers/network/authority.h
class ConnectionBound;  // computers/network/connection_bound.h
}  // namespace membrane::computers

namespace membrane::service {

// kWasm: a session of a language, or runs of WebAssembly text. kLinux: programs of an image, whose turns run
// concurrently, each as a process of its own.
enum class Kind : uint8_t { kWasm, kLinux };
std::string_view name_of(Kind kind);
// "linux" and "linux:IMAGE" are of kind kLinux.
Kind kind_of_template(std::string_view template_name);

// Names and values.
using Environment = std::map<std::string, std::string>;

struct GuestSpec {
  std::string template_name;  // "python", "js", "wat", an added language, "linux" or "linux:IMAGE"
  policy::Policy policy;      // including its packages
  // The environment of programs: os.environ, process.env, or that of a WASI program.
  Environment environment = {};
  host::Secrets secrets = nullptr;  // the secrets that the policy's headers name; null: none
  std::shared_ptr<computers::ConnectionBound> connections =
      nullptr;         // shared by its tenant's Linux sandboxes; null: none
  bool seals = false;  // makes a receipt of every turn, in all contexts
  // The authority that programs of a Linux sandbox trust. It is in no file: a saved sandbox gets another one
  // when the service restarts. Forks, and sandboxes started from a snapshot, share their origin's. Null: one
  // of its own.
  std::shared_ptr<computers::Authority> authority = nullptr;
};

// The most that is kept of a context that seals until its next receipt. It counts as memory of the sandbox.
[[nodiscard]] uint64_t receipt_bytes(const policy::Limits& limits);

// How a turn is sealed.
struct TurnSeal {
  sandbox::ReceiptKey key;
  // Stores the receipt, with its number in its context (0 for a run), before anybody gets the turn's report.
  // After an error the context's later turns are refused, since they cannot be sealed.
  std::function<Answer<void>(const sandbox::SealedReceipt&, uint64_t turn)> keep;
};

struct GuestTurn {
  std::string code;
  std::string stdin_text = {};
  std::vector<std::string> arguments = {};
  std::string name = {};   // name of the code, for tracebacks; "": generated
  bool is_script = false;  // a whole program, which leaves only files (sandbox::Turn)
  std::optional<std::chrono::milliseconds> most_time = {};  // shortens the policy's limit
  std::optional<uint64_t> most_fuel = {};                   // the same
  // Receive the output as it is written: UTF-8 in whole characters, on the turn's thread; for the kind kLinux
  // also bytes that are not UTF-8. May be null.
  std::function<void(std::string_view)> on_stdout = {}, on_stderr = {};
  host::Approve approve = nullptr;  // called on the turn's thread; null: nobody can approve
  std::string context = {};         // "": the default context
  Environment environment = {};     // for this turn only, added to the sandbox's
  // Provides input while it runs, instead of stdin_text (sandbox::Turn::read_input); may be null.
  std::function<sandbox::InputPiece(std::chrono::milliseconds)> read_input = {};
  host::EgressWatch* egress = nullptr;  // observes its http requests; borrowed, may be null
  // Always set for a guest that seals; for others only if each turn is a run of its own. Borrowed; may be
  // null.
  const TurnSeal* seal = nullptr;

  // -- of the kind kLinux alone
  std::vector<std::string> command = {};             // a program and its arguments, instead of code
  std::string directory = {};                        // start directory; "": the context's
  std::optional<linux::TerminalSize> terminal = {};  // its standard streams are a terminal
  // A name or number of /etc/passwd, whose home is the start directory and HOME; "": the image's user.
  std::string user = {};
  // Makes a waiting read_input() return: nobody will read more. May be null.
  std::function<void()> stop_reading = {};
  // Called when it has started; signals and sizes go there while it runs. May be null.
  std::function<void(std::shared_ptr<linux::Command>)> on_begun = {};
  std::function<bool()> is_cancelled = {};  // polled; true ends only this turn. May be null

  // The flows of the conversation that the turn is part of: while it runs, what either has read counts for
  // both. May be null.
  std::shared_ptr<host::Flows> flows = nullptr;
};

// A context as bytes: its difference from its template.
struct KeptContext {
  std::string id;  // "": the default context
  std::string template_name;
  std::vector<uint8_t> bytes;
  std::string seal = {};  // state of its receipts (sandbox::ReceiptRecorder::keep()); "": none are made
  // Instead of bytes, for a Linux guest: a sealed memory file, open for reading, which any number of forks
  // share copy-on-write.
  std::shared_ptr<const linux::HostFile> file = nullptr;

  [[nodiscard]] uint64_t size_bytes() const;
};

struct GuestUsage {
  uint64_t memory_bytes = 0, disk_bytes = 0;
  uint64_t cpu_us = 0;  // of existing processes, and of children that they waited for
};

class Guest {
 public:
  virtual ~Guest() = default;

  [[nodiscard]] virtual Kind kind() const { return Kind::kWasm; }
  // Something in it runs even without a turn, so it is not parked.
  [[nodiscard]] virtual bool works_by_itself() { return false; }

  // A missing context gives the outcome kInvalid. So does a turn that must be sealed and would not be.
  virtual sandbox::Report exec(const GuestTurn& turn) = 0;
  // Ends the running turn at its next safepoint: its outcome is kCancelled. This holds until allow() is
  // called.
  virtual void stop() = 0;
  virtual void allow() = 0;
  // Nobody needs it any more: calls that wait in it fail soon, and it can only be deleted. From any thread.
  virtual void end() { stop(); }

  // A context has state and files of its own, and starts as the sandbox started. "" for the sandbox's own
  // template. Errors: those of Guests::create(); kConflict for one that exists; kUnsupported for kinds that
  // keep nothing between turns.
  virtual Answer<void> open_context(const std::string& id, const std::string& template_name) = 0;
  // Errors: kNotFound.
  virtual Answer<void> close_context(const std::string& id) = 0;

  // Applies from the next turn on, in all contexts. Errors: kInvalidValue for invalid names, kUnsupported for
  // a language that has no environment; then nothing has changed.
  virtual Answer<void> set_environment(const Environment& environment) = 0;
  // Applies from the next turn on, in all contexts. Errors: kUnsupported for what keep() cannot keep; then
  // nothing has changed.
  virtual Answer<void> set_policy(const policy::Policy& policy, const host::Secrets& secrets) = 0;

  // All contexts in their current state. `fork`: their state in a fork of this number, which draws other
  // random numbers than its parent and other forks, and has no receipts. Errors: kUnsupported for state that
  // cannot be kept (see sandbox/session.h).
  virtual Answer<std::vector<KeptContext>> keep(std::optional<uint64_t> fork = {}) = 0;

  // The files of a context, by absolute paths. Errors: kNotFound, kInvalidValue, kForbidden, kConflict;
  // kUnsupported for a kind that has none.
  virtual Answer<std::string> read_file(const std::string& context, const std::string& path) = 0;
  virtual Answer<void> write_file(const std::string& context, const std::string& path,
                                  std::string_view bytes) = 0;
  virtual Answer<std::vector<wasi::FileFact>> act_on_files(const std::string& context,
                                                           const wasi::FileRequest& request) = 0;
  // Only for the kind kLinux: exports the differences below a directory from the sandbox's image, or from a
  // snapshot over the same image (null: the former), as a git patch; and applies such a patch, all of it or
  // nothing. Errors: kUnsupported; kInvalidValue with the file and the line; kConflict for a snapshot over
  // another image; kTooLarge; those of the memory.
  virtual Answer<std::string> make_patch(const std::string& /*directory*/, const KeptContext* /*since*/,
                                         const computers::PatchMemory& /*memory*/) {
    return no_patches();
  }
  virtual Answer<std::vector<std::string>> apply_patch(const std::string& /*directory*/,
                                                       std::string_view /*patch*/,
                                                       const computers::PatchMemory& /*memory*/) {
    return no_patches();
  }
  // Only for the kind kLinux: creates a directory of the image's user, which may already exist, and its
  // parents.
  virtual Answer<void> make_home(const std::string& /*path*/) { return only_linux("homes of users"); }
  // Only for the kind kLinux: its current resource usage.
  virtual Answer<GuestUsage> usage() { return only_linux("metrics"); }
  // Only for the kind kLinux: a file's mode, owner and target. Errors: those of read_file().
  virtual Answer<linux::FileFacts> stat_file(const std::string& /*path*/, bool /*follows_links*/) {
    return only_linux("modes of files");
  }
  // Only for the kind kLinux: sets permissions, 07777; or puts a symbolic link in place of a file or link,
  // creating parent directories.
  virtual Answer<void> set_mode(const std::string& /*path*/, uint32_t /*mode*/) {
    return only_linux("modes of files");
  }
  virtual Answer<void> make_link(const std::string& /*path*/, const std::string& /*target*/) {
    return only_linux("symbolic links");
  }
  // The files that it has created.
  virtual Answer<std::vector<sandbox::ReportFile>> files(const std::string& context) = 0;

  // What its programs have read, in all contexts. Never null.
  [[nodiscard]] virtual std::shared_ptr<host::Flows> flows() const = 0;

 protected:
  static std::unexpected<ApiError> only_linux(const std::string& what) {
    return refuse(ApiCode::kUnsupported, "only Linux sandboxes have " + what,
                  "Make the sandbox of the template linux.");
  }
  static std::unexpected<ApiError> no_patches() { return only_linux("git patches"); }
};

struct TemplateInfo {
  std::string name;  // its name in requests: "javascript"
  std::string version;
  std::string description;
  Kind kind = Kind::kWasm;
};

class Guests {
 public:
  virtual ~Guests() = default;

  // Errors: kInvalidValue for an unknown template, and for anything in the policy or the environment that
  // cannot be provided; kForbidden for packages where none are installed; kUnavailable.
  virtual Answer<std::unique_ptr<Guest>> create(const GuestSpec& spec) = 0;
  // Restores what keep() returned. The environment of the spec is the one in it. Errors: those of create();
  // kInvalidValue for bytes that are damaged, or of another version of the template.
  virtual Answer<std::unique_ptr<Guest>> restore(const GuestSpec& spec,
                                                 const std::vector<KeptContext>& contexts) = 0;
  [[nodiscard]] virtual std::vector<TemplateInfo> templates() const = 0;
  // The limits of a template where a policy names none.
  [[nodiscard]] virtual policy::Limits usual_limits(const std::string& template_name) const = 0;
};

struct LocalGuestsOptions {
  std::string cache_directory;                // of warm images
  std::string packages_cache_directory = {};  // "": no packages are installed
  worker::Guests where = {};                  // that runs them
};
// Sessions of the installed languages, and runs of WebAssembly text.
std::unique_ptr<Guests> local_guests(LocalGuestsOptions options);

}  // namespace membrane::service
