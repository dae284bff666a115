// Receipts of an embedder's sessions and runs (membrane/agents.hpp): what may be sealed, and sealing it.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string_view>

#include "membrane/session.hpp"
#include "sandbox/receipts/receipt_files.h"
#include "sandbox/run/sandbox.h"
#include "sandbox/session/session.h"

namespace membrane {

struct Receipts::State {
  std::mutex mutex;  // guards the book
  std::unique_ptr<sandbox::ReceiptBook> own;
  sandbox::ReceiptBook* book = nullptr;  // own, or borrowed
};

}  // namespace membrane

namespace membrane::face {

// Refuses what a sealed session or run cannot have. Errors: kUnsupported.
std::unexpected<Error> not_sealed(std::string_view what);
// Call it before functions and sources are taken from the options.
Status check_sealed(const SessionOptions& options);

// Records a session, or one run, and seals it. The options that it is attached to refer to it.
//
// Threads: one at a time, but for the book.
class Seal {
 public:
  // `language` is null for a run of the engine alone.
  Seal(Receipts receipts, std::shared_ptr<const sandbox::Template> language);
  void attach(sandbox::RunOptions& options);

  // Seals the turn or the run that just ended, and puts the receipt's file into the report.
  void keep(const sandbox::Turn& turn, Report& report);
  void keep(const sandbox::Program& program, Report& report);

  // Call these before and after the owner puts a file into the session. Errors: kExhausted for more than a receipt
  // keeps.
  Status has_room_for(std::string_view path, std::string_view bytes) const;
  void note(sandbox::OwnerAct act) { recorder_->note(std::move(act)); }
  // Whether the session's files have the real time.
  [[nodiscard]] bool has_real_time() const { return policy_.time.real; }

 private:
  void keep(sandbox::MadeOf made_of, Report& report, bool is_turn);

  Receipts receipts_;
  std::shared_ptr<const sandbox::Template> language_;
  std::unique_ptr<sandbox::ReceiptRecorder> recorder_;
  policy::Policy policy_;
};

}  // namespace membrane::face
