// What E2B's interface knows about sandboxes in addition to Sandboxes: their access tokens, and the commands
// that ran in them. E2B's clients get an access token when they create or connect to a sandbox, and send it
// with every request to the sandbox itself; it is valid until the sandbox, the API key with which it was
// obtained, or the service's process ends (then Sandbox.connect() returns another).
//
// Threads: any.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "service/e2b/watches.h"
#include "service/errors.h"
#include "service/exec.h"
#include "service/tokens.h"

namespace membrane::service::e2b {

// A command that a client started. Sandboxes keeps its exec, and so do its readers: one that is over is kept
// as long as other execs that are over.
struct Command {
  uint32_t pid = 0;     // for a Linux sandbox its process id there; for others a generated number
  std::string program;  // as written by the client
  std::vector<std::string> arguments;
  std::map<std::string, std::string> environment;
  std::optional<std::string> directory;
  std::optional<std::string> tag;
  bool is_linux = false, has_terminal = false;
  std::weak_ptr<Exec> exec;

  // Null when it is over and no longer kept.
  [[nodiscard]] std::shared_ptr<Exec> find_exec() const { return exec.lock(); }
  [[nodiscard]] bool is_over() const {
    const auto found = exec.lock();
    return found == nullptr || found->state() == ExecState::kDone;
  }
};

// A context of a language, by the id that clients use: after a restart Sandboxes has another one for it.
struct CodeContext {
  std::string id;
  std::string own_id;  // of Sandboxes
  std::string language;
  std::string directory;
};

class Known {
 public:
  Known(std::string own_id, std::string of_tenant) : id(std::move(own_id)), tenant(std::move(of_tenant)) {}

  const std::string id;
  const std::string tenant;

  // -- access; the newest kMostTokens count
  void add_access(const std::string& hash, const Caller& caller);
  [[nodiscard]] std::optional<Caller> find_access(const std::string& hash) const;

  // -- commands; the newest kMostCommands that are over are known, so that a client that connects late finds its end
  // Returns its pid, which is generated if the command has none. It replaces a command with the same pid.
  uint32_t add_command(Command command);
  [[nodiscard]] std::vector<Command> running_commands() const;
  [[nodiscard]] std::optional<Command> find_command(uint32_t pid) const;
  [[nodiscard]] std::optional<Command> find_command(std::string_view tag) const;

  // -- contexts that were opened by E2B's clients; put_context() replaces one of the same id
  void put_context(const CodeContext& context);
  [[nodiscard]] std::optional<CodeContext> find_context(std::string_view id) const;
  [[nodiscard]] std::optional<CodeContext> find_context_by_own_id(std::string_view own_id) const;
  void forget_context(std::string_view id);

  Watchers watchers;

  // The share of one processor that a sandbox has used since the last call, or since `began_ms`.
  double cpu_share(uint64_t cpu_us, int64_t now_ms, int64_t began_ms);

  // The number of the next piece of code in a context, from 1.
  uint64_t count_execution(const std::string& context);

 private:
  static constexpr size_t kMostTokens = 64, kMostCommands = 256, kMostContexts = 256;

  mutable std::mutex mutex_;  // guards what follows
  std::deque<std::pair<std::string, Caller>> access_;
  uint32_t next_pid_ = 1;
  std::map<uint32_t, Command> commands_;
  std::map<std::string, CodeContext, std::less<>> contexts_;  // by id; Sandboxes limits their number
  std::map<std::string, uint64_t, std::less<>> executions_;
  std::optional<std::pair<int64_t, uint64_t>> cpu_before_;  // when, and how much
};

class KnownSandboxes {
 public:
  // Creates an access token for this caller. Errors: kUnavailable without libcrypto.
  Answer<std::string> give_access(const Caller& caller, const std::string& sandbox);
  // The sandbox with this id; null when it is unknown.
  [[nodiscard]] std::shared_ptr<Known> find(std::string_view sandbox) const;
  // Created if it is unknown. `caller` belongs to the sandbox's tenant.
  std::shared_ptr<Known> of(const Caller& caller, const std::string& sandbox);
  void forget(std::string_view sandbox);
  // Forgets those for which `is_gone` holds. Called when there are twice as many as after the last time.
  void sweep(const std::function<bool(const Known&)>& is_gone);

 private:
  mutable std::mutex mutex_;  // guards what follows
  std::map<std::string, std::shared_ptr<Known>, std::less<>> known_;
  size_t sweep_at_ = 64;
};

}  // namespace membrane::service::e2b
