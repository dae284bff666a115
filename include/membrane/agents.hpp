// What an embedder who builds an agent gives to its programs beside the policy: who decides what leaves, a model, a person, and receipts
// of what ran. Sessions take these as fields of SessionOptions, programs in WebAssembly by functions of Sandbox.
//
// Functions are called on the thread of the run or of the turn, also of an isolated session. Sessions and runs that are given the same
// function may call it at the same time; so do forks. What one throws is as if it had failed.
#pragma once

#include <membrane/membrane.hpp>

#include <chrono>

namespace membrane {

// -- what leaves ------------------------------------------------------------------------------------------------------

// Something that a program has read, of private data or of text of untrusted origin (docs/policy.md#trifecta).
struct FlowRead {
  uint64_t call =
      0;  // the number of the host call, from 1, in its session; 0: input, or what another has read
  std::string function;  // "fs.read", "http.request", "input"
  std::string target;    // a path, a URL: cut short; may be empty
};
struct FlowReads {
  std::vector<FlowRead> first;  // at most 16
  uint64_t more = 0;            // that are not among them
};

// What was read, shared by all that is given it: the model of one conversation carries text from each program to the next, so what one has
// read counts for all. Nothing is ever unread. A session without has one of its own, and so has each fork of it, which begins with what its
// parent has read.
//
// Threads: copies share the same; any thread may use it.
class Flows {
 public:
  Flows();
  [[nodiscard]] FlowReads private_reads() const;
  [[nodiscard]] FlowReads untrusted_reads() const;
  // Both kinds were read: nothing leaves without a yes.
  [[nodiscard]] bool is_closed() const;

  struct State;
  [[nodiscard]] const State& state() const { return *state_; }

 private:
  std::shared_ptr<State> state_;
};

// A request that would leave, to a server or to a model, after both kinds were read.
struct EgressQuestion {
  std::string function;  // "http.request", "ai.complete"
  std::string target;    // "POST https://example.org/upload"
  uint64_t bytes = 0;    // that the request would send, all that the program chooses of it
  FlowReads private_reads, untrusted_reads;
  std::chrono::steady_clock::time_point until;  // the end of the turn's time: a later answer is a no
  // True once the turn is to end, so that the answer is of no use any more. Borrowed for the call; may be null.
  const std::atomic<bool>* cancel = nullptr;
};
// kNobody: nobody was there to ask. It is a no, and told as one that nobody answered.
enum class Approval : uint8_t { kYes, kNo, kNobody };
// Called where the policy has [trifecta] with egress = "ask"; at most 100 times in a run or turn. Waiting is time of the turn.
using Approve = std::function<Approval(const EgressQuestion&)>;

// -- a model and a person ---------------------------------------------------------------------------------------------

// What fails reaches the program as the error number that Failure::code names ("ETIMEDOUT", "ENOTSUP", …: docs/capabilities.md), else as
// EHOST, and the report with its message.

struct ModelRequest {
  std::string system;  // may be empty
  std::string prompt;
  uint32_t max_tokens = 0;  // that the answer may have: what the policy and the budget leave
  uint64_t timeout_ms = 0;
};
struct ModelAnswer {
  std::string text;
  uint64_t tokens_in = 0, tokens_out = 0;  // that were used: the budget pays them
};
// Answers ai.complete and ai.embed, which the policy grants and bounds (docs/policy.md#ai). One without a function answers ENOTSUP.
struct Model {
  std::function<Expected<ModelAnswer>(const ModelRequest& request)> complete{};
  std::function<Expected<std::vector<float>>(std::string_view text, uint64_t timeout_ms)> embed{};
};

// Answers agent.ask, which the policy grants: what a person says to the question.
using Ask = std::function<Expected<std::string>(std::string_view question, uint64_t timeout_ms)>;

// -- receipts ---------------------------------------------------------------------------------------------------------

struct ReceiptsOptions {
  // That `membrane keys` made. "": the user's own, $XDG_CONFIG_HOME/membrane/receipt-keys.json, else below ~/.config.
  std::string key_file{};
  bool makes_key = false;  // a new one for this user alone, where the file is not there
};

// A directory of receipts: files that say what ran, what it did and what came of it, under a signature (docs/receipts.md). Each turn of a
// session that is given it is sealed by itself, and names the turn before; each run of a Sandbox is sealed, too. Report::receipt is the
// file; beside it is one with `.private` at its end, which is for the owner alone.
//
// A receipt says what can be run again without the world. So what is sealed has no functions, types, inputs, clock, sleep, entropy or time
// zone of the embedder's; goes from its beginning, turn by turn; and is not forked, paused, frozen or loaded. All these are refused.
//
// Threads: copies share the directory; any thread may use it.
class Receipts {
 public:
  // Makes the directory where it is not there. Fails without a key that signs, and where the directory or the key cannot be used.
  static Expected<Receipts> open(std::string directory, const ReceiptsOptions& options = {});
  // Why something that ran was not sealed: the first of all. Report::unsealed says it of each.
  [[nodiscard]] std::optional<Failure> problem() const;

  struct State;
  explicit Receipts(std::shared_ptr<State> state) : state_(std::move(state)) {}
  [[nodiscard]] State& state() const { return *state_; }

 private:
  std::shared_ptr<State> state_;
};

}  // namespace membrane
