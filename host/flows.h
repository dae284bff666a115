// The trifecta rule while a program runs: what was read so far of private data and of text of untrusted origin, and
// whether a request may still leave (policy/trifecta.h).
//
//   BrokerGate ─ before a request that leaves ─▶ FlowGuard::may_leave(): goes, or is refused; a person may be asked
//              ─ after each answer ───────────▶ FlowGuard::note(): which reads it was
//   Flows: what was read, for as long as a session and its kin live
//
// Egress is every request over HTTP, whatever its method, and every question to a model: both reach another party. What is
// written to files and stores stays with the owner; reading it back has the marks of its place. What never leaves through a
// broker (output, the result, files of the sandbox's own) goes to whoever runs the program.
//
// Nothing is ever unread: marks are only added.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "host/broker.h"
#include "host/decisions.h"
#include "host/errno.h"
#include "policy/policy.h"
#include "policy/trifecta.h"

namespace membrane::host {

struct FlowRead {
  uint64_t call =
      0;  // the number of the request, from 1, in its session; 0: input, or what another session read
  std::string function;  // of the broker, as a journal has it; "input"
  std::string target;    // cut, and UTF-8

  friend bool operator==(const FlowRead&, const FlowRead&) = default;
};

// Reads of one kind: the first ones, and how many more there were.
struct FlowReads {
  static constexpr size_t kMost = 16;
  std::vector<FlowRead> first;
  uint64_t more = 0;

  friend bool operator==(const FlowReads&, const FlowReads&) = default;
};

// What a session takes along when it is kept, forked or frozen.
struct FlowState {
  uint64_t calls = 0;
  FlowReads private_reads, untrusted_reads;

  [[nodiscard]] bool is_empty() const {
    return calls == 0 && private_reads.first.empty() && untrusted_reads.first.empty();
  }
  // Both kinds were read: nothing leaves without a yes.
  [[nodiscard]] bool is_closed() const {
    return !private_reads.first.empty() && !untrusted_reads.first.empty();
  }
  [[nodiscard]] bool is_sound() const {
    return private_reads.first.size() <= FlowReads::kMost && untrusted_reads.first.size() <= FlowReads::kMost;
  }

  friend bool operator==(const FlowState&, const FlowState&) = default;
};

// What was read, as another session has it, whose calls have other numbers.
FlowState carried(FlowState state);

// Shared by whoever must not be told apart: the contexts of a sandbox, the programs of a conversation with a model.
// Threads: any.
class Flows {
 public:
  [[nodiscard]] FlowState state() const;
  // What is there already stays.
  void add(const FlowState& state);
  void add(policy::ReadMarks marks, const FlowRead& read);

 private:
  friend class FlowGuard;
  friend class FlowsShared;
  mutable std::mutex mutex_;
  FlowState state_;
  std::vector<std::shared_ptr<Flows>> heard_by_;  // what is added goes to these, too
};

// As long as it lives, what is read by `own` counts for `other` at once. What either had read counts for both. `other` may be
// null; it hears of `own`, and must not be heard by others itself.
class FlowsShared {
 public:
  FlowsShared(std::shared_ptr<Flows> own, std::shared_ptr<Flows> other);
  ~FlowsShared();
  FlowsShared(const FlowsShared&) = delete;
  FlowsShared& operator=(const FlowsShared&) = delete;

 private:
  std::shared_ptr<Flows> own_, other_;
};

// kUnasked: nobody was asked any more. It is told as kUnanswered is.
enum class Leaving : uint8_t { kClosed, kApproved, kRefused, kUnanswered, kUnasked };
std::string_view name_of(Leaving decision);  // "closed", "approved", "refused", "unanswered"

// A request that would leave, after both kinds were read.
struct FlowEgress {
  uint64_t call = 0;
  std::string function, target;
  Leaving decision = Leaving::kClosed;
};

// What a report says of a run or a turn.
struct FlowReport {
  static constexpr size_t kMostEgress = 100;
  FlowState state;  // at its end
  std::vector<FlowEgress> egress;
  uint64_t more_egress = 0;
  std::string
      unanswered;  // "POST https://example.org/": it waited for a yes until the time was over; "" else
};

// What a person decides about, and until when.
struct EgressQuestion {
  std::string function, target;  // "http.request", "POST https://example.org/upload"
  uint64_t bytes = 0;            // that the request would send
  FlowState reads;
  std::chrono::steady_clock::time_point until;
  const std::atomic<bool>* cancel = nullptr;  // the run is to end; borrowed, and may be null
};
enum class Approval : uint8_t { kYes, kNo, kNobody };
using Approve = std::function<Approval(const EgressQuestion&)>;

// Begins the reason of each refusal by the rule.
inline constexpr std::string_view kTrifectaRule = "The trifecta rule";

// Threads: one at a time.
class FlowGuard {
 public:
  // That a run, or a turn, may put to a person. After that the answer is no.
  static constexpr uint64_t kMostQuestions = 100;

  // Copies the policy, which has the rule. `approve` may be null: then nobody says yes.
  FlowGuard(const policy::Policy& policy, std::shared_ptr<Flows> flows, Approve approve);

  void bound(std::chrono::steady_clock::time_point end, const std::atomic<bool>* cancel);
  void begin_turn();
  // The program is given input.
  void note_input();

  // The number of the next request.
  void begin_call();

  // Before a request that leaves acts. A request that the policy does not grant passes: whoever acts refuses it.
  HostResult<void> may_leave(std::string_view function, std::span<const std::string_view> arguments);
  // Of a replay: what was decided, by the answer. `was_approved` is the journal's word.
  void note_decided(std::string_view function, std::span<const std::string_view> arguments,
                    const HostError* error, bool was_approved);
  // Whether the last request was let go by a person.
  [[nodiscard]] bool was_approved() const { return was_approved_; }
  // Of the request that is made: a server was reached (HttpRequest::hear), and what it says counts as read, whatever becomes of
  // the request. Whether it may be followed where it redirects to: not once private data was read, since that would be a
  // request of the server's choice.
  bool hear(const HttpHop& hop);
  // What was heard, for a journal; nothing when it is what the request itself says.
  [[nodiscard]] std::vector<HttpHop> heard_besides(std::span<const std::string_view> arguments) const;

  struct Answer {
    const HostError* error = nullptr;  // null: it succeeded
    std::string_view final_url = {};   // of http.request, where hear() was not told
    std::optional<uint64_t> handle = {};
    bool has_content = true;
    bool is_directory = true;  // of what is looked at; also where that is not known
  };
  void note(std::string_view function, std::span<const std::string_view> arguments, const Answer& answer);

  [[nodiscard]] FlowReport report() const;

  // Why a request would have been stopped, of calls that are over (recorded_calls.h).
  [[nodiscard]] std::optional<HostError> would_stop(std::string_view function,
                                                    std::span<const std::string_view> arguments) const;

 private:
  struct MarkedHttp {
    const policy::HttpGrant& words;
    policy::UrlGrant url;
    policy::ReadMarks marks;
    [[nodiscard]] bool allows(std::string_view method) const {
      return std::ranges::find(words.methods, method) != words.methods.end();
    }
  };
  struct MarkedFs {
    const policy::FsGrant& grant;
    Components guest;
    policy::ReadMarks marks;
  };

  [[nodiscard]] bool is_granted(std::string_view function, std::span<const std::string_view> arguments) const;
  [[nodiscard]] policy::ReadMarks marks_of_http(std::string_view method, std::string_view url) const;
  [[nodiscard]] policy::ReadMarks marks_of_hop(const HttpHop& hop) const;
  [[nodiscard]] const MarkedFs* rule_of(const Components& path) const;
  [[nodiscard]] policy::ReadMarks marks_of_path(std::string_view path, bool is_look_at_directory) const;
  [[nodiscard]] policy::ReadMarks marks_of_failure(std::string_view function,
                                                   std::span<const std::string_view> arguments,
                                                   Errno code) const;
  [[nodiscard]] policy::ReadMarks marks_read(std::string_view function,
                                             std::span<const std::string_view> arguments,
                                             const Answer& answer);
  void add(policy::ReadMarks marks, const FlowRead& read);
  void tell(std::string_view function, std::string target, Leaving decision);
  [[nodiscard]] HostError refusal(const FlowState& state, Leaving decision) const;

  const policy::Policy policy_;
  std::vector<MarkedHttp> http_;
  std::vector<MarkedFs> fs_;
  std::shared_ptr<Flows> flows_;
  Approve approve_;
  std::chrono::steady_clock::time_point end_ = std::chrono::steady_clock::time_point::max();
  const std::atomic<bool>* cancel_ = nullptr;
  std::map<uint64_t, policy::ReadMarks> new_files_;  // open files that were empty when they were opened
  bool was_approved_ = false;
  uint64_t call_ = 0;           // the number of the request that is made
  std::vector<HttpHop> heard_;  // of it
  std::vector<FlowEgress> egress_;
  uint64_t more_egress_ = 0;
  uint64_t asked_ = 0;      // questions of this run or turn
  std::string unanswered_;  // as FlowReport has it
};

}  // namespace membrane::host
