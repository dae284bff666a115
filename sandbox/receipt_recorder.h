// Seals runs, and the turns of a session: listens to a run (its host calls, what it read, the files it made) and makes a receipt of
// that and its report.
//
//   ReceiptRecorder recorder(key);
//   recorder.attach(options);                     // before sandbox::run() or Session::create()
//   Report report = run(program, options);
//   auto sealed = recorder.seal_run(made_of, report);
//
// It works in the process that has the broker and gets the report, wherever the guest runs.
//
// Ownership: the options that it is attached to refer to it, and so do the sessions made with them. Threads: one at a time.
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
  const Template* language = nullptr;  // null: the engine alone; the same for all that one recorder seals
  const policy::Policy* policy = nullptr;
  // Of a Linux sandbox: describe_computer(); then there is no language.
  std::string computer = {};
};

class ReceiptRecorder final : public host::JournalSink {
 public:
  // `also`, which may be null, is borrowed: it gets each entry, too.
  explicit ReceiptRecorder(ReceiptKey key, host::JournalSink* also = nullptr)
      : key_(std::move(key)), also_(also) {}

  // From now on the options' run is recorded here. What they call and are given is called and given as before.
  void attach(RunOptions& options);
  // The same for the session's next turn, which may have input of its own.
  void attach(Turn& turn);

  // What is sealed from now on is signed by this key.
  void sign_with(ReceiptKey key) { key_ = std::move(key); }

  // How much of what happens is kept in memory until it is sealed. What comes beyond it is not kept: acts of the owner are
  // refused before they are done, host calls fail, and a run that has called, read or made more is not sealed.
  void set_most_bytes(uint64_t bytes) { most_bytes_ = bytes; }
  [[nodiscard]] uint64_t held_bytes() const {
    return act_bytes_ + input_bytes_ + file_bytes_ + calls_.bytes();
  }

  // What the owner did to the session since its last turn: part of the next turn's receipt. Errors: kExhausted for more
  // than a receipt keeps, before it is done: then it is not to be done.
  [[nodiscard]] Status has_room_for(uint64_t bytes) const;
  [[nodiscard]] Status has_room_for(const policy::Policy& policy) const;
  void note(OwnerAct act);
  // The session goes on under this policy, in options that this was attached to again.
  void note_policy(const policy::Policy& policy);

  // A turn's receipt was lost: the turns after it cannot be sealed any more, since a chain has no gaps.
  void break_chain(const std::string& why);
  // Whether what happens can be sealed. Errors: why it cannot.
  [[nodiscard]] Status usable() const { return failed_; }

  [[nodiscard]] uint64_t turn() const { return turn_; }  // that was sealed last
  // How far the receipts of a session are, as text, for a recorder that goes on with it in another place.
  [[nodiscard]] std::string keep() const;
  // Errors: kInvalidInput for what keep() did not give.
  Status restore(std::string_view kept);

  // Of a run, or of the session's next turn, which just ended. Errors: those of describe_template(), ReceiptSheet::add() and
  // seal(); kExhausted for a run that read more than a receipt keeps.
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
  std::string description_;  // of the language; "": not made yet

  // Of the run, or of the turn that is under way.
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

  // Of the journal, which goes on from turn to turn.
  uint64_t sequence_ = 0;
  std::string chain_, chain_before_;

  // Of the session.
  std::string session_, previous_;
  uint64_t turn_ = 0;
};

// A task of an agent, of the receipts of what it ran.
struct SealedTask {
  std::string text;    // the task
  std::string answer;  // "" without one
  std::string stop;    // why it ended: agent::name_of(Stop)
  std::string model;   // the name
  const policy::Policy* policy = nullptr;
  std::vector<std::pair<std::string, std::string>> turns;  // digest, and the name of the file
  uint64_t fuel = 0;
};
// Errors: as ReceiptRecorder::seal_run().
Result<SealedReceipt> seal_task(const SealedTask& task, const ReceiptKey& key);

}  // namespace membrane::sandbox
