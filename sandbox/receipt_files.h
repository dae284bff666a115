// Receipts in files: NAME.receipt, and beside it NAME.receipt.private, which is for the owner only.
//
//   ReceiptBook book = …open("receipts", key);
//   auto recorder = book.new_recorder();              // one for each session
//   recorder->attach(options); …                      // receipt_recorder.h
//   book.keep_turn(*recorder, made_of, report);       // receipts/1f2e3d4c-0001.receipt
//   book.keep_task(task);                             // receipts/task-5b6a7988.receipt, of all that was kept since the last task
//
// Threads: one at a time.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sandbox/receipt_recorder.h"
#include "sandbox/receipt_replay.h"

namespace membrane::sandbox {

// A book's file name for a turn: "1f2e3d4c-0001.receipt".
std::string name_of_turn(const ReceiptHead& head);

// Writes both files, complete or not at all; the private one appears first. Errors: kUnavailable.
Status write_receipt(const std::string& path, const SealedReceipt& sealed);

// The content of a file, not verified. Errors: kNotFound, kUnavailable; those of Receipt::parse().
Result<Receipt> read_receipt(const std::string& path);
// Its private part; nothing when there is no such file. Errors: those of PrivatePart::parse().
Result<std::optional<PrivatePart>> read_private_part(const std::string& path, const Receipt& receipt);
// The receipts in a directory, sorted by name: files that end in ".receipt". Errors: kNotFound; kTooLong for more than 100,000.
Result<std::vector<std::string>> receipts_in(const std::string& directory);

// For a turn: all turns of its session up to this one, found in its directory; for a run, the run itself; not for a
// task. All are verified and have their private parts. Errors: kNotFound when a turn or a private part is missing;
// those of verify().
Result<std::vector<SealedRun>> read_turns(const std::string& path, const KeyRing& keys);

class ReceiptBook {
 public:
  // Creates the directory if it does not exist. Errors: kUnavailable.
  static Result<ReceiptBook> open(std::string directory, ReceiptKey key);

  [[nodiscard]] std::unique_ptr<ReceiptRecorder> new_recorder() const;
  // Writes the receipt of a run or turn that just ended, and returns its file. Errors: those of
  // ReceiptRecorder::seal_run() and write_receipt(). The first error is also kept for problem().
  Result<std::string> keep_run(ReceiptRecorder& recorder, MadeOf made_of, const Report& report);
  Result<std::string> keep_turn(ReceiptRecorder& recorder, MadeOf made_of, const Report& report);
  // Its turns are those kept since the last task.
  Result<std::string> keep_task(SealedTask task);
  // Why something was not sealed.
  [[nodiscard]] const std::optional<Error>& problem() const { return problem_; }

 private:
  ReceiptBook(std::string directory, ReceiptKey key)
      : directory_(std::move(directory)), key_(std::move(key)) {}
  Result<std::string> keep(Result<SealedReceipt> sealed, bool is_task);
  Result<std::string> write(const SealedReceipt& sealed, bool is_task);

  std::string directory_;
  ReceiptKey key_;
  std::vector<std::pair<std::string, std::string>>
      kept_;  // digest and file name of each, since the last task
  std::optional<Error> problem_;
};

}  // namespace membrane::sandbox
