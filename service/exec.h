// One exec of a sandbox: what it printed and showed as events, and its report at the end. Who reads the events can come
// late, come again, and be slow: they are kept until the exec is forgotten. How much there can be is bounded by the
// output limit of the policy, and small writes become one event. What it keeps in memory is counted for its tenant.
//
// Threads: any.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "host/flows.h"
#include "linux/sandbox/live_computer.h"
#include "sandbox/report.h"
#include "sandbox/sandbox.h"
#include "service/errors.h"
#include "service/held_bytes.h"
#include "service/http.h"

namespace membrane::service {

enum class ExecState : uint8_t { kQueued, kRunning, kDone };
std::string_view name_of(ExecState state);

// A request that waits for a person's yes, as the trifecta rule asks (host/flows.h).
struct PendingApproval {
  std::string id;  // "apr_…", of one request
  std::string exec;
  int64_t asked_at_ms = 0;
  host::EgressQuestion question;
};

class Exec : public std::enable_shared_from_this<Exec> {
 public:
  // `held` is what it holds until its end: what it was asked, which waits. What it keeps beyond that is counted there, too.
  Exec(std::string own_id, std::string of_sandbox, int64_t now_ms, HeldBytes::Hold held = {})
      : id(std::move(own_id)),
        sandbox(std::move(of_sandbox)),
        created_at_ms(now_ms),
        asked_bytes_(held.bytes()),
        held_(std::move(held)) {}

  const std::string id;
  const std::string sandbox;
  const int64_t created_at_ms;

  // -- its input while it runs (ExecSpec::open_stdin)
  static constexpr size_t kMostInputBytes = 1u << 20;
  // Before it is known to anybody: from now on it takes input, of which this is the first. Errors: kTooManyRequests when its
  // tenant holds too much.
  Answer<void> open_input(std::string first);
  // Bytes of it that nobody has read yet.
  [[nodiscard]] size_t unread_input() const;
  // More of it; with `is_end` it was the last. Errors: kConflict for an exec that takes none, is over, or whose input has
  // ended; kTooManyRequests while it has more than it has read, or its tenant holds too much: then nothing was taken.
  Answer<void> write_input(std::string_view bytes, bool is_end);
  // What has come, for who runs it; nothing when nothing comes within `patience`.
  [[nodiscard]] sandbox::InputPiece read_input(std::chrono::milliseconds patience);

  // Nobody reads more of it: a read_input() that waits returns.
  void stop_reading();

  // -- while it runs, of a Linux sandbox
  // What it is told goes there from now on, until its end.
  void set_command(std::shared_ptr<linux::Command> command);
  // Errors: kConflict for an exec that does not run, or is of another kind.
  Answer<void> signal(int number);
  Answer<void> resize(linux::TerminalSize size);
  // Its terminal is gone: SIGHUP, and the end of its input. Nothing for one that is over.
  void hang_up();

  // Before it has begun: it shall not. One of a Linux sandbox that runs ends.
  void cancel() { is_cancelled_ = true; }
  [[nodiscard]] bool is_cancelled() const { return is_cancelled_; }

  // -- for who runs it
  void begin();
  // In whole characters where they are UTF-8.
  void add_output(bool is_error, std::string_view bytes);
  // Waits until decide() is called, or the question's time is over. Meanwhile the question is pending(); there is an event
  // `approval` for it, and one for the decision. On the exec's thread, so that there is one at most.
  host::Approval ask(const host::EgressQuestion& question, int64_t now_ms);
  // Before finish(): the digest of its receipt.
  void set_receipt(std::string digest);
  // The events `display`, and `report` as the last one.
  void finish(sandbox::Report report);

  [[nodiscard]] ExecState state() const;
  // That it keeps in memory: what it was asked until its end, unread input, events.
  [[nodiscard]] uint64_t held_bytes() const;
  [[nodiscard]] std::optional<PendingApproval> pending() const;
  // What was decided about; nothing when no such question is pending.
  std::optional<PendingApproval> decide(std::string_view approval, bool allow);
  // "ok", "failed", …; "" before the end.
  [[nodiscard]] std::string outcome() const;
  // {"exec_id":…, "receipt":… when it was sealed, and the members of the report}; "" before the end.
  [[nodiscard]] std::string report_json() const;
  // Called once, when it is over: at once when it is already. On the thread that ends it.
  void when_done(std::function<void()> then);

  enum class Kind : uint8_t { kStdout, kStderr, kDisplay, kApproval, kReport };
  struct Event {
    Kind kind;
    std::string
        text;  // of output: the bytes that were written; of kReport: report_json() without what was printed; else JSON
  };
  // What events tell of output. kText: {"text":…}, and where that is not what was written, "base64" with it. kBytes: {"base64":…}, and
  // the report does not say it again.
  enum class Form : uint8_t { kText, kBytes };
  struct Telling {
    Form form = Form::kText;
    bool hangs_up = false;  // hang_up() when the reader goes away before the end
  };
  struct Events {
    std::vector<Event> events;
    bool is_end = false;  // there are no more
  };
  // What is there by now from `first` on, at most about `most_bytes`. With neither events nor the end, `wake` is called
  // once when there is more.
  [[nodiscard]] Events take(uint64_t first, size_t most_bytes, std::function<void()> wake);
  // The events from `first` on, as server-sent events: `id` is an event's number, from 0.
  [[nodiscard]] std::shared_ptr<BodySource> events(uint64_t first, Telling how);

 private:
  friend class ExecEvents;
  [[nodiscard]] std::string render(const Event& event, uint64_t number, Form form) const;
  void add(Event event);
  // Under the mutex; then wakes_ are to be called without it.
  void keep(Event event);
  Answer<std::shared_ptr<linux::Command>> running_command() const;

  const uint64_t asked_bytes_;
  std::atomic<bool> is_cancelled_ = false;
  mutable std::mutex mutex_;  // guards what follows
  ExecState state_ = ExecState::kQueued;
  std::vector<Event> events_;
  uint64_t read_ = 0;  // events before this were given to somebody, and do not change any more
  std::string receipt_, outcome_;
  std::string report_;        // JSON, all of it
  std::string input_;         // that was not read yet
  bool has_input_ = false;    // it was opened
  bool takes_input_ = false;  // and has not ended
  bool is_read_ = true;       // by somebody, still
  std::condition_variable input_came_;
  std::shared_ptr<linux::Command> command_;
  std::vector<std::function<void()>> wakes_;  // of readers that wait
  std::vector<std::function<void()>> when_done_;
  std::optional<PendingApproval> pending_;
  std::optional<bool> decision_;  // about it
  std::condition_variable decided_;
  uint64_t approvals_ = 0;  // that were asked for
  HeldBytes::Hold held_;
};

// {"id":…, "exec_id":…, "asked_at":…, "function":…, "target":…, "bytes":…, "private_reads":[…], "untrusted_reads":[…]}
nlohmann::ordered_json to_json(const PendingApproval& pending);

}  // namespace membrane::service
