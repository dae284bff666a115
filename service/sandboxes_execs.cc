// The execs of sandboxes: what may be run, finding them, and what reaches one that runs: input, signals,
// decisions, its end.
#include <algorithm>

#include "base/text.h"
#include "lang/language_names.h"
#include "service/sandbox_record.h"
#include "service/tokens.h"

namespace membrane::service {
namespace {

constexpr std::string_view kExecPrefix = "exe";

}  // namespace

// -- what may be run ----------------------------------------------------------------------------------------------

Answer<void> Sandboxes::check_command(const Sandbox& in, const ExecSpec& spec) {
  if (kind_of_template(in.spec.template_name) == Kind::kLinux) return {};
  if (spec.command.empty() && spec.directory.empty() && !spec.terminal && spec.user.empty()) return {};
  const bool is_command = !spec.command.empty();
  return refuse(ApiCode::kUnsupported,
                "a sandbox of the template " + in.template_name +
                    (is_command ? " runs no commands" : " has no directories, terminals or users"),
                is_command ? "Pass \"code\", or create a sandbox from the template linux."
                           : "Leave them out, or create a sandbox from the template linux.");
}

Answer<void> Sandboxes::has_room_for_input(const Sandbox& in, size_t bytes) const {
  size_t unread = 0;
  for (const auto& exec : in.execs) unread += exec->unread_input();
  if (bytes == 0 || unread + bytes <= options_.most_input_bytes) return {};
  return refuse(ApiCode::kTooManyRequests,
                "the execs of the sandbox have " + count_of(unread, "byte") +
                    " of unread input, and the limit is " + std::to_string(options_.most_input_bytes) +
                    " together",
                "Send it again when they have read, or cancel those that wait.");
}

Answer<void> Sandboxes::check_seal(const std::string& tenant, Sandbox& sandbox, bool is_wanted) {
  bool seals = false, is_alone = false;  // each exec is a separate run
  {
    const std::lock_guard lock(sandbox.mutex);
    seals = sandbox.spec.seals;
    const std::string& of = sandbox.spec.template_name;
    is_alone = kind_of_template(of) == Kind::kLinux || lang::language_named(of) == "wat";
  }
  if (!seals && !is_wanted) return {};
  if (options_.receipts == nullptr) return refuse(ApiCode::kUnsupported, "this service makes no receipts");
  if (!seals && !is_alone)
    return refuse(ApiCode::kConflict, "the sandbox was made without \"seal\"",
                  "Create one with \"seal\": true: receipts cover a session from its first turn on.");
  if (const auto room = options_.receipts->has_room(tenant, sandbox.id); !room) return room;
  if (const auto key = options_.receipts->signing_key(); !key) return std::unexpected(key.error());
  return {};
}

// -- queueing one -------------------------------------------------------------------------------------------------

Answer<std::shared_ptr<Exec>> Sandboxes::begin_exec(const std::string& tenant, const std::string& id,
                                                    ExecSpec& spec) {
  uint64_t bytes = spec.other_bytes + spec.code.size() + (spec.open_stdin ? 0 : spec.stdin_text.size());
  for (const std::string& argument : spec.arguments) bytes += argument.size();
  for (const auto& [name, value] : spec.environment) bytes += name.size() + value.size();
  auto held = hold(tenant, bytes);
  if (!held) return std::unexpected(held.error());
  return std::make_shared<Exec>(new_id(kExecPrefix), id, now_ms(), *std::move(held));
}

Answer<std::shared_ptr<Exec>> Sandboxes::exec(const Actor& actor, const std::string& id, ExecSpec spec) {
  const std::string& tenant = actor.tenant;
  spec.actor = actor;
  const auto sandbox = find(tenant, id);
  if (!sandbox) return std::unexpected(sandbox.error());
  auto unfinished = count_exec();
  if (!unfinished) return std::unexpected(unfinished.error());
  {
    const std::lock_guard lock((*sandbox)->mutex);
    if ((*sandbox)->is_paused) return std::unexpected(is_paused_error(id));
    if (!spec.context.empty() &&
        std::ranges::find((*sandbox)->contexts, spec.context, &ContextInfo::id) == (*sandbox)->contexts.end())
      return refuse(ApiCode::kNotFound, "the sandbox has no context " + spec.context,
                    "GET …/contexts lists them.");
    if (const auto checked = check_command(**sandbox, spec); !checked)
      return std::unexpected(checked.error());
    if ((*sandbox)->at_once.size() >= options_.most_at_once_each)
      return refuse(
          ApiCode::kTooManyRequests,
          "the sandbox runs " + count_of((*sandbox)->at_once.size(), "program") + ", which is the limit",
          "Wait for some, or cancel them; programs that they start do not count.");
  }
  if (const auto may = watcher_.may_exec(tenant); !may) {
    note_refusal(actor, id, may.error());
    return std::unexpected(may.error());
  }
  if (const auto sealable = check_seal(tenant, **sandbox, spec.seal); !sealable)
    return std::unexpected(sealable.error());
  const auto made = begin_exec(tenant, id, spec);
  if (!made) return made;
  const std::shared_ptr<Exec>& exec = *made;
  {
    const std::lock_guard lock((*sandbox)->mutex);
    if (spec.open_stdin) {
      if (const auto room = has_room_for_input(**sandbox, spec.stdin_text.size()); !room)
        return std::unexpected(room.error());
      if (const auto opened = exec->open_input(std::move(spec.stdin_text)); !opened)
        return std::unexpected(opened.error());
    }
    (*sandbox)->execs.push_back(exec);
  }
  const Answer<void> posted =
      post(*sandbox,
           [this, shared = std::weak_ptr(*sandbox), exec, spec = std::move(spec),
            queued = std::chrono::steady_clock::now(),
            unfinished = *unfinished](Sandbox& in) mutable -> std::function<void()> {
             in.actor = spec.actor;
             return run(shared.lock(), exec, std::move(spec), us_since(queued), unfinished);
           });
  if (posted) return exec;
  const std::lock_guard lock((*sandbox)->mutex);
  std::erase((*sandbox)->execs, exec);
  return std::unexpected(posted.error());
}

Answer<Sandboxes::Unfinished> Sandboxes::count_exec() {
  const std::lock_guard lock(mutex_);
  if (draining_)
    return refuse(ApiCode::kDraining, "the service is shutting down", "Try again when it is back.");
  ++unfinished_execs_;
  return Unfinished(nullptr, [this](void*) { end_of_exec(); });
}

void Sandboxes::end_of_exec() {
  std::function<void()> tell;
  {
    const std::lock_guard lock(mutex_);
    if (--unfinished_execs_ == 0) tell = std::exchange(when_execs_are_over_, nullptr);
  }
  if (tell) tell();
}

// -- finding them -------------------------------------------------------------------------------------------------

Answer<std::vector<std::shared_ptr<Exec>>> Sandboxes::list_execs(const std::string& tenant,
                                                                 const std::string& id) {
  const auto sandbox = find(tenant, id);
  if (!sandbox) return std::unexpected(sandbox.error());
  const std::lock_guard lock((*sandbox)->mutex);
  return std::vector((*sandbox)->execs.begin(), (*sandbox)->execs.end());
}

Answer<std::shared_ptr<Exec>> Sandboxes::find_exec(const std::string& tenant, const std::string& id,
                                                   const std::string& exec) {
  const auto sandbox = find(tenant, id);
  if (!sandbox) return std::unexpected(sandbox.error());
  const std::lock_guard lock((*sandbox)->mutex);
  const auto found = std::ranges::find((*sandbox)->execs, exec,
                                       [](const auto& each) -> const std::string& { return each->id; });
  if (found == (*sandbox)->execs.end() && (*sandbox)->is_adopted && exec.starts_with(kExecPrefix))
    return refuse(ApiCode::kNotFound, "the sandbox has no exec " + exec + " since the service was started",
                  "Execs are kept in the service's memory: those from before its start are gone. Of "
                  "those since then the last " +
                      std::to_string(options_.most_kept_execs) + " are kept after their end.");
  if (found == (*sandbox)->execs.end())
    return refuse(ApiCode::kNotFound, "the sandbox has no exec " + exec,
                  "The last " + std::to_string(options_.most_kept_execs) +
                      " are kept after their end, fewer where their output is long.");
  return *found;
}

// -- while one runs -----------------------------------------------------------------------------------------------

Answer<std::vector<PendingApproval>> Sandboxes::approvals(const std::string& tenant, const std::string& id) {
  const auto sandbox = find(tenant, id);
  if (!sandbox) return std::unexpected(sandbox.error());
  std::shared_ptr<Exec> running;
  {
    const std::lock_guard lock((*sandbox)->mutex);
    running = (*sandbox)->running;
  }
  std::vector<PendingApproval> all;
  if (running != nullptr)
    if (auto pending = running->pending()) all.push_back(*std::move(pending));
  return all;
}

Answer<PendingApproval> Sandboxes::decide(const std::string& tenant, const std::string& id,
                                          const std::string& approval, bool allow) {
  const auto sandbox = find(tenant, id);
  if (!sandbox) return std::unexpected(sandbox.error());
  std::shared_ptr<Exec> running;
  {
    const std::lock_guard lock((*sandbox)->mutex);
    running = (*sandbox)->running;
  }
  if (running != nullptr)
    if (auto decided = running->decide(approval, allow)) return *std::move(decided);
  return refuse(ApiCode::kNotFound, "nothing of the sandbox waits for the approval " + approval,
                "membrane approvals " + id +
                    ", or GET …/approvals, lists what waits; a request that was not answered in its run's "
                    "time is refused.");
}

Answer<void> Sandboxes::write_input(const std::string& tenant, const std::string& id, const std::string& exec,
                                    std::string_view bytes, bool is_end) {
  const auto found = find_exec(tenant, id, exec);
  if (!found) return std::unexpected(found.error());
  const auto sandbox = find(tenant, id);
  if (!sandbox) return std::unexpected(sandbox.error());
  const std::lock_guard lock((*sandbox)->mutex);
  if (const auto room = has_room_for_input(**sandbox, bytes.size()); !room) return room;
  return (*found)->write_input(bytes, is_end);
}

Answer<void> Sandboxes::cancel_exec(const Actor& actor, const std::string& id, const std::string& exec) {
  const auto found = find_exec(actor.tenant, id, exec);
  if (!found) return std::unexpected(found.error());
  const auto sandbox = find(actor.tenant, id);
  if (!sandbox) return std::unexpected(sandbox.error());
  if ((*found)->state() == ExecState::kDone) return {};
  static_cast<void>(note(actor, "exec.cancelled", {{"sandbox", id}, {"exec", exec}}));
  const std::lock_guard lock((*sandbox)->mutex);
  if ((*sandbox)->running == *found) (*sandbox)->guest->stop();
  else if ((*found)->state() != ExecState::kDone) (*found)->cancel();
  return {};
}

Answer<void> Sandboxes::signal_exec(const std::string& tenant, const std::string& id, const std::string& exec,
                                    int number) {
  const auto found = find_exec(tenant, id, exec);
  if (!found) return std::unexpected(found.error());
  return (*found)->signal(number);
}

Answer<void> Sandboxes::resize_exec(const std::string& tenant, const std::string& id, const std::string& exec,
                                    linux::TerminalSize size) {
  const auto found = find_exec(tenant, id, exec);
  if (!found) return std::unexpected(found.error());
  return (*found)->resize(size);
}

// -- ending what runs ---------------------------------------------------------------------------------------------

void Sandboxes::stop_all_that_runs(Sandbox& in) {
  if (in.guest != nullptr && (in.running || !in.at_once.empty())) in.guest->stop();
}

void Sandboxes::end_at_once(Sandbox& in) {
  std::unique_lock lock(in.mutex);
  stop_all_that_runs(in);
  in.at_once_changed.wait(lock, [&] { return in.at_once.empty(); });
}

void Sandboxes::cancel_execs() {
  is_stopping_ = true;
  for (const auto& sandbox : all_sandboxes()) cancel_all(*sandbox);
}

}  // namespace membrane::service
