// Seals runs, and the turns of a session: observes a run (its host calls, what it read, the files it made) and makes
// a receipt from that and its report.
//
//   ReceiptRecorder recorder(key);
//   recorder.attach(options);                     // before sandbox::run() or Session::create()
//   Report report = run(program, options);
//   auto sealed = recorder.seal_run(made_of, report);
//
// It works in the process that has the broker and gets the report, wherever the guest runs.
//
// Ownership: the options that it is attached to refer to it, and so do the sessions made with them. Threads: one at
// a time.
#pragma once

#include <string>
#include <vector>

#include "sandbox/receipt.h"
#include "sandbox/receipt_content.h"
#include "sandbox/sandbox.h"
#include "sandbox/session.h"

namespace membrane::sandbox {

// What ran.
struct MadeOf {
  std::string source;
  Invocation invocation;
  const Template* language =
      nullptr;  // null: the engine alone; the same for everything that one recorder seals
  const policy::Policy* policy = nullptr;
  // For a Linux sandbox: describe_computer(); it has no language.
  std::string computer = {};
};

class ReceiptRecorder final : public host::JournalSink {
 public:
  // `also`, which may be null, is borrowed: it gets each entry, too.
  explicit ReceiptRecorder(ReceiptKey key, host::JournalSink* also = nullptr)
      : key_(std::move(key)), also_(also) {}

  // From now on, records the options' run. The options' functions and inputs keep working as before.
  void attach(RunOptions& options);
  // The same for the session's next turn, which may have its own input.
  void attach(Turn& turn);

  // Receipts sealed from now on are signed with this key.
  void sign_with(ReceiptKey key) { key_ = std::move(key); }

  // How much is kept in memory until it is sealed. Beyond that, acts of the owner are refused before they are done,
  // host calls fail, and a run that has called, read or made more is not sealed.
  void set_most_bytes(uint64_t bytes) { most_bytes_ = bytes; }
  [[nodiscard]] uint64_t held_bytes() const {
    return act_bytes_ + input_bytes_ + file_bytes_ + calls_.bytes();
  }

  // Records what the owner did to the session since its last turn: part of the next turn's receipt. Errors:
  // kExhausted if it exceeds what a receipt keeps; call it first, and do not act on an error.
  [[nodiscard]] Status has_room_for(uint64_t bytes) const;
  [[nodiscard]] Status has_room_for(const policy::Policy& policy) const;
  void note(OwnerAct act);
  // The session continues under this policy, in options that this recorder was attached to again.
  void note_policy(const policy::Policy& policy);

  // A turn's receipt was lost: later turns cannot be sealed any more, since a chain has no gaps.
  void break_chain(const std::string& why);
  // Whether sealing is still possible. Errors: why it is not.
  [[nodiscard]] Status usable() const { return failed_; }

  [[nodiscard]] uint64_t turn() const { return turn_; }  // the last turn that was sealed
  // The state of a session's receipts, as text, for a recorder that continues it elsewhere.
  [[nodiscard]] std::string keep() const;
  // Errors: kInvalidInput for text not written by keep().
  Status restore(std::string_view kept);

  // Seals a run, or the session's next turn, which just ended. Errors: those of describe_template(),
  // ReceiptSheet::add() and seal(); kExhausted for a run that read more than a receipt keeps.
  Result<SealedReceipt> seal_run(MadeOf made_of, const Report& report);
  Result<SealedReceipt> seal_turn(MadeOf made_of, const Report& report);

  // -- JournalSink
  Status append(host::JournalEntry entry, const WriteResult& result) override;
  void drop_last() override;

 private:
  Result<SealedReceipt> seal(ReceiptHead head, MadeOf made_of, const Report& report);
  Status add_made_of(ReceiptSheet& sheet, MadeOf& made_of);
  void forget();
  Status check_calls();
  Status add_calls(const Report& report);
  void listen(std::function<InputPiece(std::chrono::milliseconds)>& read_input);

  ReceiptKey key_;
  host::JournalSink* also_;
  std::string description_;  // for the language; "": not computed yet

  // For the run, or the turn in progress.
  ReceiptSheet calls_;
  std::vector<std::string> input_;
  uint64_t input_bytes_ = 0;
  bool has_input_ = false, is_ambient_ = false, is_live_ = false;
  std::vector<MadeFile> files_;
  uint64_t file_bytes_ = 0;
  uint64_t most_bytes_ = UINT64_MAX;
  std::vector<OwnerAct> acts_;
  uint64_t act_bytes_ = 0;
  Status failed_;  // why it cannot be sealed

  // The position in the journal, which continues from turn to turn.
  uint64_t sequence_ = 0;
  std::string chain_, chain_before_;

  // For the session.
  std::string session_, previous_;
  uint64_t turn_ = 0;
};

// A task of an agent, with the receipts of what it ran.
struct SealedTask {
  std::string text;    // the task
  std::string answer;  // "" without one
  std::string stop;    // why it ended: agent::name_of(Stop)
  std::string model;   // its name
  const policy::Policy* policy = nullptr;
  std::vector<std::pair<std::string, std::string>> turns;  // digest and file name of each
  uint64_t fuel = 0;
};
// Errors: as ReceiptRecorder::seal_run().
Result<SealedReceipt> seal_task(const SealedTask& task, const ReceiptKey& key);

}  // namespace membrane::sandbox
