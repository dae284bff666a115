// What Sandboxes knows about one sandbox. Only its own files include this.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <deque>

#include "service/sandboxes.h"

namespace membrane::service {

struct Sandboxes::Sandbox {
  std::string id, tenant, template_name;
  uint64_t memory_bytes = 0, egress_bytes = 0;  // its limits
  int64_t created_at_ms = 0;

  std::mutex mutex;  // guards what follows, except what belongs to the running task
  int64_t last_used_at_ms = 0;
  int64_t expires_at_ms = 0;
  uint64_t ttl_s = 0;
  std::optional<uint64_t> idle_timeout_s;
  std::map<std::string, std::string> metadata;
  std::vector<std::string> labels;
  uint64_t version = 1;
  uint64_t execs_run = 0;
  std::string parent;
  std::vector<ContextInfo> contexts;  // in addition to the default one
  GuestSpec spec;
  struct Queued {
    Task act;
    bool is_use = true;  // not an operation of the service's own
  };
  std::deque<Queued> tasks;
  size_t uses = 0;              // tasks that count as uses, including the running one
  bool is_at_work = false;      // a thread runs it, or will
  bool cannot_be_kept = false;  // in its state since its last use
  bool is_dead = false;
  bool is_paused = false;
  bool is_adopted = false;  // taken over from the previous service
  std::shared_ptr<Exec> running;
  std::vector<std::shared_ptr<Exec>> at_once;  // concurrent execs of a Linux guest
  std::condition_variable at_once_changed;     // one has ended
  std::deque<std::shared_ptr<Exec>> execs;     // the newest last
  std::vector<std::shared_ptr<FileWatch>> watches;

  // Belong to the running task, which changes them under the mutex; others may stop a running guest under it.
  // Exactly one of the three is set.
  std::shared_ptr<Guest> guest;  // also held by what runs in it
  struct Parked {
    std::vector<KeptContext> contexts;
    HeldBytes::Hold held;  // of them
  };
  std::optional<Parked> parked;   // in memory
  std::optional<KeptGuest> kept;  // in images: paused, or parked by a previous service
  uint64_t forks = 0;             // number of forks made
  Actor actor;                    // who asked for the running task
};

ApiError no_sandbox(const std::string& id);
ApiError is_paused_error(const std::string& id);
ApiError too_busy_error();
uint64_t us_since(std::chrono::steady_clock::time_point begin);

// -- templates of Sandboxes, for its own files

template <typename T>
void Sandboxes::with_sandbox(const Actor& actor, const std::string& id, Then<T> then,
                             std::function<Answer<T>(Sandbox&)> act, Turn turn) {
  const auto sandbox = find(actor.tenant, id);
  if (!sandbox) return then(std::unexpected(sandbox.error()));
  const Answer<void> posted = post(
      *sandbox,
      [then, actor, act = std::move(act)](Sandbox& in) -> std::function<void()> {
        in.actor = actor;
        bool is_dead = false;
        {
          const std::lock_guard lock(in.mutex);
          is_dead = in.is_dead;
        }
        const auto answer =
            std::make_shared<Answer<T>>(is_dead ? std::unexpected(no_sandbox(in.id)) : act(in));
        return [then, answer] { then(std::move(*answer)); };
      },
      turn);
  if (!posted) then(std::unexpected(posted.error()));
}

template <typename T>
void Sandboxes::with_guest(const Actor& actor, const std::string& id, Then<T> then,
                           std::function<Answer<T>(Guest&)> act, std::optional<FileChange> change) {
  with_sandbox<T>(actor, id, std::move(then),
                  [this, act = std::move(act), change = std::move(change)](Sandbox& in) -> Answer<T> {
                    const auto guest = wake(in);
                    if (!guest) return std::unexpected(guest.error());
                    auto answer = act(**guest);
                    if (answer && change) static_cast<void>(note(in, change->event, change->fields));
                    return answer;
                  });
}

template <typename T>
Sandboxes::Then<T> Sandboxes::noting_refusal(const Actor& actor, const std::string& id, Then<T> then) {
  return [this, actor, id, then = std::move(then)](Answer<T> answer) {
    if (!answer) note_refusal(actor, id, answer.error());
    then(std::move(answer));
  };
}

}  // namespace membrane::service
