// What an embedder who builds an agent can give to its programs in addition to the policy: approval of what leaves,
// a model, a person, and receipts of what ran. Sessions take these as fields of SessionOptions, WebAssembly programs
// through functions of Sandbox.
//
// Functions are called on the thread of the run or of the turn, including for isolated sessions. Sessions and runs
// that share a function may call it concurrently; so may forks. A function that throws is treated as having failed.
#pragma once

#include <membrane/membrane.hpp>

#include <chrono>

namespace membrane {

// -- what leaves ------------------------------------------------------------------------------------------------------

// Something that a program has read that is private or of untrusted origin (docs/policy.md#trifecta).
struct FlowRead {
  uint64_t call = 0;  // index of the host call in its session, from 1; 0: input, or read by another session
  std::string function;  // "fs.read", "http.request", "input"
  std::string target;    // a path or a URL, truncated; may be empty
};
struct FlowReads {
  std::vector<FlowRead> first;  // at most 16
  uint64_t more = 0;            // how many reads are not in `first`
};

// What was read, shared by everything that is given it: the model of one conversation carries text from each program
// to the next, so what one has read counts for all. Reads are never forgotten. A session without Flows has its own,
// and so has each fork of it, which starts with what its parent has read.
//
// Threads: copies share the state; any thread may use it.
class Flows {
 public:
  Flows();
  [[nodiscard]] FlowReads private_reads() const;
  [[nodiscard]] FlowReads untrusted_reads() const;
  // Both kinds were read: nothing leaves without approval.
  [[nodiscard]] bool is_closed() const;

  struct State;
  [[nodiscard]] const State& state() const { return *state_; }

 private:
  std::shared_ptr<State> state_;
};

// A request, to a server or a model, that would leave after both kinds were read.
struct EgressQuestion {
  std::string function;  // "http.request", "ai.complete"
  std::string target;    // "POST https://example.org/upload"
  uint64_t bytes = 0;    // everything in the request that the program chooses
  FlowReads private_reads, untrusted_reads;
  std::chrono::steady_clock::time_point until;  // the end of the turn's time: a later answer counts as kNo
  // True once the turn must end, so that the answer no longer matters. Borrowed for the call; may be null.
  const std::atomic<bool>* cancel = nullptr;
};
// kNobody: no one could be asked. Refuses like kNo, and is reported as unanswered.
enum class Approval : uint8_t { kYes, kNo, kNobody };
// Called if the policy has [trifecta] with egress = "ask"; at most 100 times per run or turn. Waiting counts against
// the turn's time.
using Approve = std::function<Approval(const EgressQuestion&)>;

// -- a model and a person ---------------------------------------------------------------------------------------------

// On failure the program gets the error number that Failure::code names ("ETIMEDOUT", "ENOTSUP", …; see
// docs/capabilities.md), or EHOST for another name, and the report has the message.

struct ModelRequest {
  std::string system;  // may be empty
  std::string prompt;
  uint32_t max_tokens = 0;  // limit for the answer, from the policy and the budget
  uint64_t timeout_ms = 0;
};
struct ModelAnswer {
  std::string text;
  uint64_t tokens_in = 0, tokens_out = 0;  // tokens used, charged to the budget
};
// Answers ai.complete and ai.embed, which the policy grants and bounds (docs/policy.md#ai). A missing function means
// ENOTSUP.
struct Model {
  std::function<Expected<ModelAnswer>(const ModelRequest& request)> complete{};
  std::function<Expected<std::vector<float>>(std::string_view text, uint64_t timeout_ms)> embed{};
};

// Answers agent.ask, if the policy grants it, with a person's answer to the question.
using Ask = std::function<Expected<std::string>(std::string_view question, uint64_t timeout_ms)>;

// -- receipts ---------------------------------------------------------------------------------------------------------

struct ReceiptsOptions {
  // A key file made by `membrane keys`. "": the user's own, $XDG_CONFIG_HOME/membrane/receipt-keys.json, else below
  // ~/.config.
  std::string key_file{};
  bool makes_key = false;  // creates a key, readable by this user only, if the file does not exist
};

// A directory of receipts: signed files that say what ran, what it did and what the result was (docs/receipts.md).
// Each turn of a session that uses it is sealed separately and names the turn before it; each run of a Sandbox is
// sealed, too. Report::receipt is the file; beside it is one that ends in `.private`, for the owner only.
//
// A receipt describes a run that can be repeated without the outside world. So a sealed session cannot have
// functions, types, inputs, a clock, sleep, entropy or a time zone from the embedder; must be sealed from its first
// turn on; and cannot be forked, paused, frozen or loaded. All these are refused.
//
// Threads: copies share the directory; any thread may use it.
class Receipts {
 public:
  // Creates the directory if it does not exist. Fails without a signing key, or if the directory or the key cannot
  // be used.
  static Expected<Receipts> open(std::string directory, const ReceiptsOptions& options = {});
  // Why a run was not sealed: the first such problem. Report::unsealed has the reason for each run.
  [[nodiscard]] std::optional<Failure> problem() const;

  struct State;
  explicit Receipts(std::shared_ptr<State> state) : state_(std::move(state)) {}
  [[nodiscard]] State& state() const { return *state_; }

 private:
  std::shared_ptr<State> state_;
};

}  // namespace membrane
