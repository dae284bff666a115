// One exec of a sandbox: its output and displays as events, and its report at the end. Readers of events can
// come late, return, and be slow: events are kept until the exec is forgotten. The policy's output limit
// bounds them, and small writes are merged into one event. What an exec keeps in memory is charged to its
// tenant.
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
#include "host/gate/flows.h"
#include "linux/sandbox/live_computer.h"
#include "sandbox/report/report.h"
#include "sandbox/run/sandbox.h"
#include "service/errors.h"
#include "service/held_bytes.h"
#include "service/http.h"

namespace membrane::service {

enum class ExecState : uint8_t { kQueued, kRunning, kDone };
std::string_view name_of(ExecState state);

// A request that waits for a person's approval, as the trifecta rule demands (host/gate/flows.h).
struct PendingApproval {
  std::string id;  // "apr_…", of one request
  std::string exec;
  int64_t asked_at_ms = 0;
  host::EgressQuestion question;
};

class Exec : public std::enable_shared_from_this<Exec> {
 public:
  // `held` counts what it holds until its end: its request, which waits. Anything that it keeps in addition
  // is counted there too.
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
  // Call it before the exec is published: it then accepts input, starting with `first`. Errors:
  // kTooManyRequests when its tenant holds too much.
  Answer<void> open_input(std::string first);
  // The number of bytes that nobody has read yet.
  [[nodiscard]] size_t unread_input() const;
  // Adds input; with `is_end` it was the last. Errors: kConflict for an exec that accepts none, is over, or
  // whose input has ended; kTooManyRequests while it has too much unread input, or its tenant holds too much:
  // then nothing was added.
  Answer<void> write_input(std::string_view bytes, bool is_end);
  // Returns the input so far, for the runner; nothing when none arrives within `patience`.
  [[nodiscard]] sandbox::InputPiece read_input(std::chrono::milliseconds patience);

  // No more input is read: a waiting read_input() returns.
  void stop_reading();

  // -- while it runs, of a Linux sandbox
  // Signals and sizes go to this command from now on, until its end.
  void set_command(std::shared_ptr<linux::Command> command);
  // Errors: kConflict for an exec that does not run, or is of another kind.
  Answer<void> signal(int number);
  Answer<void> resize(linux::TerminalSize size);
  // Hangs up its terminal: SIGHUP, and the end of its input. Does nothing for one that is over.
  void hang_up();

  // Before it has begun, prevents it; ends a running exec of a Linux sandbox.
  void cancel() { is_cancelled_ = true; }
  [[nodiscard]] bool is_cancelled() const { return is_cancelled_; }

  // -- for who runs it
  void begin();
  // In whole characters where the bytes are UTF-8.
  void add_output(bool is_error, std::string_view bytes);
  // Waits until decide() is called, or the question's time is over. Meanwhile the question is in pending();
  // it causes an event `approval`, and the decision another one. Runs on the exec's thread, so there is at
  // most one.
  host::Approval ask(const host::EgressQuestion& question, int64_t now_ms);
  // Before finish(): the digest of its receipt.
  void set_receipt(std::string digest);
  // Adds the events `display`, and `report` as the last one.
  void finish(sandbox::Report report);

  [[nodiscard]] ExecState state() const;
  // The bytes that it keeps in memory: its request until its end, unread input, events.
  [[nodiscard]] uint64_t held_bytes() const;
  [[nodiscard]] std::optional<PendingApproval> pending() const;
  // Returns the request that was decided; nothing when no such request is pending.
  std::optional<PendingApproval> decide(std::string_view approval, bool allow);
  // "ok", "failed", …; "" before the end.
  [[nodiscard]] std::string outcome() const;
  // {"exec_id":…, "receipt":… if it was sealed, and the members of the report}; "" before the end.
  [[nodiscard]] std::string report_json() const;
  // Calls `then` once when it is over; at once if it already is. On the thread that ends it.
  void when_done(std::function<void()> then);

  enum class Kind : uint8_t { kStdout, kStderr, kDisplay, kApproval, kReport };
  struct Event {
    Kind kind;
    std::string
        text;  // for output: the bytes written; for kReport: report_json() without output; otherwise JSON
  };
  // The form of output in events. kText: {"text":…}, plus "base64" if the text differs from the bytes.
  // kBytes: {"base64":…}, and the report does not repeat it.
  enum class Form : uint8_t { kText, kBytes };
  struct Telling {
    Form form = Form::kText;
    bool hangs_up = false;  // call hang_up() when the reader leaves before the end
  };
  struct Events {
    std::vector<Event> events;
    bool is_end = false;  // no more events follow
  };
  // Returns the events so far from `first` on, at most about `most_bytes`. If there are neither events nor
  // the end, `wake` is called once when there is more.
  [[nodiscard]] Events take(uint64_t first, size_t most_bytes, std::function<void()> wake);
  // The events from `first` on, as server-sent events: `id` is an event's number, from 0.
  [[nodiscard]] std::shared_ptr<BodySource> events(uint64_t first, Telling how);

 private:
  friend class ExecEvents;
  [[nodiscard]] std::string render(const Event& event, uint64_t number, Form form) const;
  void add(Event event);
  // Under the mutex; afterwards call wakes_ without it.
  void keep(Event event);
  Answer<std::shared_ptr<linux::Command>> running_command() const;

  const uint64_t asked_bytes_;
  std::atomic<bool> is_cancelled_ = false;
  mutable std::mutex mutex_;  // guards what follows
  ExecState state_ = ExecState::kQueued;
  std::vector<Event> events_;
  uint64_t read_ = 0;  // events before this were delivered, and no longer change
  std::string receipt_, outcome_;
  std::string report_;        // JSON, all of it
  std::string input_;         // not yet read
  bool has_input_ = false;    // it was opened
  bool takes_input_ = false;  // accepts input that has not ended
  bool is_read_ = true;       // by somebody, still
  std::condition_variable input_came_;
  std::shared_ptr<linux::Command> command_;
  std::vector<std::function<void()>> wakes_;  // of waiting readers
  std::vector<std::function<void()>> when_done_;
  std::optional<PendingApproval> pending_;
  std::optional<bool> decision_;  // about it
  std::condition_variable decided_;
  uint64_t approvals_ = 0;  // number of approvals requested
  HeldBytes::Hold held_;
};

// {"id":…, "exec_id":…, "asked_at":…, "function":…, "target":…, "bytes":…, "private_reads":[…], "untrusted_reads":[…]}
nlohmann::ordered_json to_json(const PendingApproval& pending);

}  // namespace membrane::service
