// A sandbox's program, wherever it runs: the one face that the lifecycle (sandboxes.h) has of guests.
//
// Threads: a Guest is one thread's at a time; stop() may be called from any, and so may exec() of a Linux guest. Guests: any.
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

// kWasm: a session of a language, or runs of WebAssembly's text. kLinux: programs of an image, whose turns run at once, each as a
// process of its own.
enum class Kind : uint8_t { kWasm, kLinux };
std::string_view name_of(Kind kind);
// "linux" and "linux:IMAGE" are of kind kLinux.
Kind kind_of_template(std::string_view template_name);

// Names and values.
using Environment = std::map<std::string, std::string>;

struct GuestSpec {
  std::string template_name;  // "python", "js", "wat", that of an added language, "linux" or "linux:IMAGE"
  policy::Policy policy;      // and the packages that it is made with
  // What programs find as os.environ, process.env, or the environment of a WASI program.
  Environment environment = {};
  host::Secrets secrets = nullptr;  // what headers of the policy name; null: there is none
  std::shared_ptr<computers::ConnectionBound> connections =
      nullptr;         // of its tenant's Linux sandboxes; null: none
  bool seals = false;  // a receipt is made of every turn, in all contexts
  // That programs of a Linux sandbox trust. It is in no file: what was kept gets another one when the service starts over. Forks, and what
  // begins as a snapshot, have that of the sandbox they are of. Null: one of its own.
  std::shared_ptr<computers::Authority> authority = nullptr;
};

// What is kept of a context that seals until its next receipt, at most. It counts as memory of the sandbox.
[[nodiscard]] uint64_t receipt_bytes(const policy::Limits& limits);

// How a turn is sealed.
struct TurnSeal {
  sandbox::ReceiptKey key;
  // Takes the receipt, with its number in its context (0 of a run), before the turn's report is given to anybody. After an
  // error the context's later turns are refused, since they cannot be sealed.
  std::function<Answer<void>(const sandbox::SealedReceipt&, uint64_t turn)> keep;
};

struct GuestTurn {
  std::string code;
  std::string stdin_text = {};
  std::vector<std::string> arguments = {};
  std::string name = {};   // of the code, for tracebacks; "": one of its own
  bool is_script = false;  // a whole program, which leaves no state but files (sandbox::Turn)
  std::optional<std::chrono::milliseconds> most_time = {};  // less than the policy's limit counts
  std::optional<uint64_t> most_fuel = {};                   // the same
  // Hear UTF-8 as it is written, in whole characters, on the turn's thread; of the kind kLinux also what is no UTF-8. May be null.
  std::function<void(std::string_view)> on_stdout = {}, on_stderr = {};
  host::Approve approve = nullptr;  // asked on the turn's thread; null: nobody is there
  std::string context = {};         // "": the one that exists from the start
  Environment environment = {};     // of this turn alone, over the sandbox's
  // Input that comes while it runs, in the place of stdin_text (sandbox::Turn::read_input); may be null.
  std::function<sandbox::InputPiece(std::chrono::milliseconds)> read_input = {};
  host::EgressWatch* egress = nullptr;  // hears of its http requests; borrowed, may be null
  // There always for a guest that seals; for others only where each turn is a run of its own. Borrowed; may be null.
  const TurnSeal* seal = nullptr;

  // -- of the kind kLinux alone
  std::vector<std::string> command = {};             // a program and its arguments, in the place of code
  std::string directory = {};                        // where it begins; "": where the context is
  std::optional<linux::TerminalSize> terminal = {};  // its standard streams are a terminal
  // A name or number of /etc/passwd, in whose home it begins and which is its HOME; "": the image's user.
  std::string user = {};
  // Makes a read_input() that waits return: nobody will read more. May be null.
  std::function<void()> stop_reading = {};
  // It has begun: what it is told while it runs goes there. May be null.
  std::function<void(std::shared_ptr<linux::Command>)> on_begun = {};
  std::function<bool()> is_cancelled = {};  // asked now and then; true ends this turn alone. May be null

  // Of the conversation that the turn is part of: while it runs, what either has read counts for both. May be null.
  std::shared_ptr<host::Flows> flows = nullptr;
};

// A context as bytes: what it is besides its template.
struct KeptContext {
  std::string id;  // "": the one that exists from the start
  std::string template_name;
  std::vector<uint8_t> bytes;
  std::string seal = {};  // how far its receipts are (sandbox::ReceiptRecorder::keep()); "": none are made
  // In the place of bytes, of a Linux guest: a sealed file in memory, open for reading, which any number of forks share by copy-on-write.
  std::shared_ptr<const linux::HostFile> file = nullptr;

  [[nodiscard]] uint64_t size_bytes() const;
};

struct GuestUsage {
  uint64_t memory_bytes = 0, disk_bytes = 0;
  uint64_t cpu_us = 0;  // of the processes that exist, and of those that they waited for
};

class Guest {
 public:
  virtual ~Guest() = default;

  [[nodiscard]] virtual Kind kind() const { return Kind::kWasm; }
  // Something of it runs though no turn does, so that it is not parked.
  [[nodiscard]] virtual bool works_by_itself() { return false; }

  // A context that there is not is an outcome: kInvalid. So is a turn that would not be sealed and has to be.
  virtual sandbox::Report exec(const GuestTurn& turn) = 0;
  // Ends the turn that runs, at its next safepoint: its outcome is kCancelled. It holds until allow() takes it back.
  virtual void stop() = 0;
  virtual void allow() = 0;
  // Nobody wants it any more: what waits in it fails soon, and it can only be deleted. From any thread.
  virtual void end() { stop(); }

  // A context has state and files of its own, and begins as the sandbox began. "" for the sandbox's own template. Errors:
  // as Guests::create(); kConflict for one that exists; kUnsupported for kinds that keep nothing between turns.
  virtual Answer<void> open_context(const std::string& id, const std::string& template_name) = 0;
  // Errors: kNotFound.
  virtual Answer<void> close_context(const std::string& id) = 0;

  // From the next turn on, in all contexts. Errors: kInvalidValue for names that are none, kUnsupported for a language
  // that has no environment; then all is as it was.
  virtual Answer<void> set_environment(const Environment& environment) = 0;
  // From the next turn on, in all contexts. Errors: kUnsupported for what keep() cannot keep; then all is as it was.
  virtual Answer<void> set_policy(const policy::Policy& policy, const host::Secrets& secrets) = 0;

  // All contexts as they stand. `fork`: as they stand in a fork of this number, which draws other random numbers than its
  // parent and other forks, and has no receipts. Errors: kUnsupported for what cannot be kept (sandbox/session.h says what).
  virtual Answer<std::vector<KeptContext>> keep(std::optional<uint64_t> fork = {}) = 0;

  // The files that a context sees, by absolute paths. Errors: kNotFound, kInvalidValue, kForbidden, kConflict;
  // kUnsupported for a kind that has none.
  virtual Answer<std::string> read_file(const std::string& context, const std::string& path) = 0;
  virtual Answer<void> write_file(const std::string& context, const std::string& path,
                                  std::string_view bytes) = 0;
  virtual Answer<std::vector<wasi::FileFact>> act_on_files(const std::string& context,
                                                           const wasi::FileRequest& request) = 0;
  // Of the kind kLinux alone: what differs below a directory from the image that the sandbox began with, or from what was kept of one over the
  // same image (null: the former), as a git patch; and such a patch, all of it or nothing. Errors: kUnsupported; kInvalidValue with the file
  // and the line; kConflict for what was kept over another image; kTooLarge; those of the memory.
  virtual Answer<std::string> make_patch(const std::string& /*directory*/, const KeptContext* /*since*/,
                                         const computers::PatchMemory& /*memory*/) {
    return no_patches();
  }
  virtual Answer<std::vector<std::string>> apply_patch(const std::string& /*directory*/,
                                                       std::string_view /*patch*/,
                                                       const computers::PatchMemory& /*memory*/) {
    return no_patches();
  }
  // Of the kind kLinux alone: a directory of the image's user, which may be there already; those above it are made.
  virtual Answer<void> make_home(const std::string& /*path*/) { return only_linux("homes of users"); }
  // The same: what it uses at this moment.
  virtual Answer<GuestUsage> usage() { return only_linux("metrics"); }
  // The same: of a file with its mode, owner and target. Errors: as of read_file().
  virtual Answer<linux::FileFacts> stat_file(const std::string& /*path*/, bool /*follows_links*/) {
    return only_linux("modes of files");
  }
  // The same: permissions, 07777; a symbolic link in the place of a file or link that exists, with the directories above it.
  virtual Answer<void> set_mode(const std::string& /*path*/, uint32_t /*mode*/) {
    return only_linux("modes of files");
  }
  virtual Answer<void> make_link(const std::string& /*path*/, const std::string& /*target*/) {
    return only_linux("symbolic links");
  }
  // Those that it has made.
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
  std::string name;  // what requests call it: "javascript"
  std::string version;
  std::string description;
  Kind kind = Kind::kWasm;
};

class Guests {
 public:
  virtual ~Guests() = default;

  // Errors: kInvalidValue for a template that there is not, and what the policy or the environment asks for in vain;
  // kForbidden for packages where none are installed; kUnavailable.
  virtual Answer<std::unique_ptr<Guest>> create(const GuestSpec& spec) = 0;
  // What keep() kept. The environment of the spec is that which is in it. Errors: as create(); kInvalidValue for bytes
  // that are damaged, or of another version of the template.
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
// Sessions of the installed languages, and runs of WebAssembly's text.
std::unique_ptr<Guests> local_guests(LocalGuestsOptions options);

}  // namespace membrane::service
