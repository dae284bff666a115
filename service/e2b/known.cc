#include "service/e2b/known.h"

#include <algorithm>

#include "base/sha256.h"

namespace membrane::service::e2b {

void Known::add_access(const std::string& hash, const Caller& caller) {
  const std::lock_guard lock(mutex_);
  access_.emplace_back(hash, caller);
  if (access_.size() > kMostTokens) access_.pop_front();
}

std::optional<Caller> Known::find_access(const std::string& hash) const {
  const std::lock_guard lock(mutex_);
  const auto found =
      std::ranges::find(access_, hash, [](const auto& pair) -> const std::string& { return pair.first; });
  if (found == access_.end()) return std::nullopt;
  return found->second;
}

uint32_t Known::add_command(Command command) {
  const std::lock_guard lock(mutex_);
  if (command.pid == 0) command.pid = next_pid_++;
  const uint32_t pid = command.pid;
  std::erase_if(commands_, [](const auto& each) { return each.second.find_exec() == nullptr; });
  for (auto& [number, known] : commands_) {  // of those that are over only the tag can be asked for
    if (!known.is_over()) continue;
    known.program.clear();
    known.arguments.clear();
    known.environment.clear();
    known.directory.reset();
  }
  for (auto at = commands_.begin(); commands_.size() >= kMostCommands && at != commands_.end();)
    at = at->second.is_over() ? commands_.erase(at) : std::next(at);
  commands_.insert_or_assign(pid, std::move(command));
  return pid;
}

std::vector<Command> Known::running_commands() const {
  const std::lock_guard lock(mutex_);
  std::vector<Command> running;
  for (const auto& [pid, command] : commands_)
    if (!command.is_over()) running.push_back(command);
  return running;
}

std::optional<Command> Known::find_command(uint32_t pid) const {
  const std::lock_guard lock(mutex_);
  const auto found = commands_.find(pid);
  if (found == commands_.end()) return std::nullopt;
  return found->second;
}

std::optional<Command> Known::find_command(std::string_view tag) const {
  const std::lock_guard lock(mutex_);
  const auto found =
      std::ranges::find_if(commands_, [&](const auto& each) { return each.second.tag == tag; });
  if (found == commands_.end()) return std::nullopt;
  return found->second;
}

void Known::put_context(const CodeContext& context) {
  const std::lock_guard lock(mutex_);
  contexts_.insert_or_assign(context.id, context);
}

std::optional<CodeContext> Known::find_context(std::string_view wanted) const {
  const std::lock_guard lock(mutex_);
  const auto found = contexts_.find(wanted);
  if (found == contexts_.end()) return std::nullopt;
  return found->second;
}

std::optional<CodeContext> Known::find_context_by_own_id(std::string_view own_id) const {
  const std::lock_guard lock(mutex_);
  const auto found =
      std::ranges::find_if(contexts_, [&](const auto& each) { return each.second.own_id == own_id; });
  if (found == contexts_.end()) return std::nullopt;
  return found->second;
}

void Known::forget_context(std::string_view wanted) {
  const std::lock_guard lock(mutex_);
  if (const auto found = contexts_.find(wanted); found != contexts_.end()) contexts_.erase(found);
}

double Known::cpu_share(uint64_t cpu_us, int64_t now_ms, int64_t began_ms) {
  constexpr double kUsInMs = 1000;
  const std::lock_guard lock(mutex_);
  const auto [then_ms, before_us] = cpu_before_.value_or(std::pair(began_ms, uint64_t{0}));
  cpu_before_ = {now_ms, cpu_us};
  if (now_ms <= then_ms || cpu_us <= before_us) return 0;
  return static_cast<double>(cpu_us - before_us) / (static_cast<double>(now_ms - then_ms) * kUsInMs);
}

uint64_t Known::count_execution(const std::string& context) {
  const std::lock_guard lock(mutex_);
  if (executions_.size() >= kMostContexts && !executions_.contains(context)) executions_.clear();
  return ++executions_[context];
}

Answer<std::string> KnownSandboxes::give_access(const Caller& caller, const std::string& sandbox) {
  std::string token = new_id("e2b_access_");
  const auto hash = sha256_hex(token);
  if (!hash) return std::unexpected(api_error(hash.error()));
  of(caller, sandbox)->add_access(*hash, caller);
  return token;
}

std::shared_ptr<Known> KnownSandboxes::find(std::string_view sandbox) const {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(sandbox);
  return found == known_.end() ? nullptr : found->second;
}

std::shared_ptr<Known> KnownSandboxes::of(const Caller& caller, const std::string& sandbox) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Known>& known = known_[sandbox];
  if (!known) known = std::make_shared<Known>(sandbox, caller.tenant);
  return known;
}

void KnownSandboxes::forget(std::string_view sandbox) {
  const std::lock_guard lock(mutex_);
  if (const auto found = known_.find(sandbox); found != known_.end()) known_.erase(found);
}

void KnownSandboxes::sweep(const std::function<bool(const Known&)>& is_gone) {
  std::vector<std::shared_ptr<Known>> all;
  {
    const std::lock_guard lock(mutex_);
    if (known_.size() < sweep_at_) return;
    for (const auto& [id, known] : known_) all.push_back(known);
  }
  for (const auto& known : all)
    if (is_gone(*known)) forget(known->id);
  const std::lock_guard lock(mutex_);
  sweep_at_ = std::max<size_t>(64, 2 * known_.size());
}

}  // namespace membrane::service::e2b
