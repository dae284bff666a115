// The trifecta rule while a program runs: which private data and which text of untrusted origin have been read, and
// whether a request may still leave (policy/trifecta.h).
//
//   BrokerGate ─ before a request that leaves ─▶ FlowGuard::may_leave(): goes, or is refused; a person may be asked
//              ─ after each answer ───────────▶ FlowGuard::note(): which reads it was
//   Flows: what was read, for as long as a session and its kin live
//
// Egress is every request over HTTP, whatever its method, and every question to a model: both reach another party.
// Writes to files and stores stay with the owner; reading them back has the marks of their place. What does not
// leave through a broker (output, the result, files of the sandbox's own) goes to the caller who runs the program.
//
// Reads are never forgotten: marks are only added.
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
  uint64_t call = 0;     // index of the request in its session, from 1; 0: input, or read by another session
  std::string function;  // the broker's function, as in a journal; "input"
  std::string target;    // truncated, and UTF-8

  friend bool operator==(const FlowRead&, const FlowRead&) = default;
};

// Reads of one kind: the first ones, and the number of further ones.
struct FlowReads {
  static constexpr size_t kMost = 16;
  std::vector<FlowRead> first;
  uint64_t more = 0;

  friend bool operator==(const FlowReads&, const FlowReads&) = default;
};

// The part of a session's state that is saved, forked or frozen with it.
struct FlowState {
  uint64_t calls = 0;
  FlowReads private_reads, untrusted_reads;

  [[nodiscard]] bool is_empty() const {
    return calls == 0 && private_reads.first.empty() && untrusted_reads.first.empty();
  }
  // Both kinds were read: nothing leaves without approval.
  [[nodiscard]] bool is_closed() const {
    return !private_reads.first.empty() && !untrusted_reads.first.empty();
  }
  [[nodiscard]] bool is_sound() const {
    return private_reads.first.size() <= FlowReads::kMost && untrusted_reads.first.size() <= FlowReads::kMost;
  }

  friend bool operator==(const FlowState&, const FlowState&) = default;
};

// The state for another session, whose calls have other numbers.
FlowState carried(FlowState state);

// Shared by everything that counts as one party: the contexts of a sandbox, the programs of a conversation with a
// model. Threads: any.
class Flows {
 public:
  [[nodiscard]] FlowState state() const;
  // Existing reads stay.
  void add(const FlowState& state);
  void add(policy::ReadMarks marks, const FlowRead& read);

 private:
  friend class FlowGuard;
  friend class FlowsShared;
  mutable std::mutex mutex_;
  FlowState state_;
  std::vector<std::shared_ptr<Flows>> heard_by_;  // additions are passed on to these, too
};

// While this object lives, reads in `own` count for `other` at once. Earlier reads of either count for both. `other`
// may be null; it receives from `own`, and no one may receive from it.
class FlowsShared {
 public:
  FlowsShared(std::shared_ptr<Flows> own, std::shared_ptr<Flows> other);
  ~FlowsShared();
  FlowsShared(const FlowsShared&) = delete;
  FlowsShared& operator=(const FlowsShared&) = delete;

 private:
  std::shared_ptr<Flows> own_, other_;
};

// kUnasked: no one was asked, since the limit of questions was reached. Reported like kUnanswered.
enum class Leaving : uint8_t { kClosed, kApproved, kRefused, kUnanswered, kUnasked };
std::string_view name_of(Leaving decision);  // "closed", "approved", "refused", "unanswered"

// A request that would leave after both kinds were read.
struct FlowEgress {
  uint64_t call = 0;
  std::string function, target;
  Leaving decision = Leaving::kClosed;
};

// The flows of a run or a turn, for its report.
struct FlowReport {
  static constexpr size_t kMostEgress = 100;
  FlowState state;  // at its end
  std::vector<FlowEgress> egress;
  uint64_t more_egress = 0;
  std::string
      unanswered;  // "POST https://example.org/": it waited for approval until the time was up; else ""
};

// What a person decides about, and the deadline.
struct EgressQuestion {
  std::string function, target;  // "http.request", "POST https://example.org/upload"
  uint64_t bytes = 0;            // in the request
  FlowState reads;
  std::chrono::steady_clock::time_point until;
  const std::atomic<bool>* cancel = nullptr;  // set when the run must end; borrowed, and may be null
};
enum class Approval : uint8_t { kYes, kNo, kNobody };
using Approve = std::function<Approval(const EgressQuestion&)>;

// Prefix of the reason of each refusal by the rule.
inline constexpr std::string_view kTrifectaRule = "The trifecta rule";

// Threads: one at a time.
class FlowGuard {
 public:
  // Maximum questions to a person per run or turn. After that the answer is no.
  static constexpr uint64_t kMostQuestions = 100;

  // Copies the policy, which must have the rule. `approve` may be null: then nothing is approved.
  FlowGuard(const policy::Policy& policy, std::shared_ptr<Flows> flows, Approve approve);

  void bound(std::chrono::steady_clock::time_point end, const std::atomic<bool>* cancel);
  void begin_turn();
  // The program gets input.
  void note_input();

  // Starts the next request, with the next number.
  void begin_call();

  // Called before a request that leaves. A request that the policy does not grant passes here: the broker refuses
  // it.
  HostResult<void> may_leave(std::string_view function, std::span<const std::string_view> arguments);
  // For a replay: the recorded decision, derived from the answer. `was_approved` is from the journal.
  void note_decided(std::string_view function, std::span<const std::string_view> arguments,
                    const HostError* error, bool was_approved);
  // Whether a person approved the last request.
  [[nodiscard]] bool was_approved() const { return was_approved_; }
  // For the request in progress: a server was reached (HttpRequest::hear), and its response counts as read, whatever
  // becomes of the request. Returns whether a redirect may be followed: not once private data was read, since the
  // redirected request is the server's choice.
  bool hear(const HttpHop& hop);
  // The hops for a journal; nothing when they follow from the request itself.
  [[nodiscard]] std::vector<HttpHop> heard_besides(std::span<const std::string_view> arguments) const;

  struct Answer {
    const HostError* error = nullptr;  // null: it succeeded
    std::string_view final_url = {};   // for http.request, if hear() was not called
    std::optional<uint64_t> handle = {};
    bool has_content = true;
    bool is_directory = true;  // for a status request; also true if unknown
  };
  void note(std::string_view function, std::span<const std::string_view> arguments, const Answer& answer);

  [[nodiscard]] FlowReport report() const;

  // Why a recorded request would have been stopped (recorded_calls.h).
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
  uint64_t call_ = 0;           // number of the request in progress
  std::vector<HttpHop> heard_;  // its hops
  std::vector<FlowEgress> egress_;
  uint64_t more_egress_ = 0;
  uint64_t asked_ = 0;      // in this run or turn
  std::string unanswered_;  // see FlowReport
};

}  // namespace membrane::host
