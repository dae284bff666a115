// --seal: receipts of what a command runs.
//
// Threads: one at a time.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "agent/loop/loop.h"
#include "cli/cli.h"
#include "sandbox/receipts/receipt_files.h"
#include "sandbox/session/session.h"

namespace membrane::cli {

// The user's own signing key. Errors: kNotFound, with how to create one; those of load_own_keys().
Result<sandbox::ReceiptKey> signing_key();
// The directory for receipts of a session or task. Errors: those of signing_key() and ReceiptBook::open().
Result<std::unique_ptr<sandbox::ReceiptBook>> open_receipt_book(const std::string& directory);

// --force, for a command with --seal FILE.
void add_force(CLI::App& command, bool& force);

// Whether a receipt can be written there, as far as that can be known. Errors: kUnavailable; kInvalidArgument
// if it, or its private part, already exists, unless `force`.
Status check_receipt_path(const std::string& path, bool force);

// Reports why something that ran was not sealed. Returns the exit code.
int complain_unsealed(const Error& error);

// The receipt of one run: FILE and FILE.private.
class RunSeal {
 public:
  // Errors: those of signing_key() and check_receipt_path().
  static Result<std::unique_ptr<RunSeal>> open(std::string path, bool force);

  // `run_options` must be otherwise complete.
  void attach(sandbox::RunOptions& run_options);
  // The program runs in a language, as a turn under this policy.
  void in_language(std::shared_ptr<const sandbox::Template> language, const policy::Policy& policy,
                   const sandbox::Turn& turn);
  // The program is a command in a Linux sandbox: passes the sandbox's description and the command's settings.
  void in_computer(std::string description, sandbox::Invocation invocation);
  // Writes the receipt of the finished run. Errors: those of ReceiptRecorder::seal_run() and write_receipt().
  Status finish(const sandbox::Program& program, const policy::Policy& policy, const sandbox::Report& report);
  // Prints on standard error where it is.
  void announce() const;

 private:
  RunSeal(std::string path, sandbox::ReceiptKey key) : path_(std::move(path)), key_(std::move(key)) {}

  std::string path_;
  sandbox::ReceiptKey key_;
  std::optional<sandbox::ReceiptRecorder> recorder_;
  std::shared_ptr<const sandbox::Template> language_;
  policy::Policy policy_;  // of the language's
  std::string computer_;   // the description; "": not a computer
  sandbox::Invocation invocation_;
};

// Seals each task of an agent when it has ended, from the receipts of its programs.
class TaskSealer final : public agent::Observer {
 public:
  // All are borrowed.
  TaskSealer(sandbox::ReceiptBook& book, const policy::Policy& policy, std::string model)
      : book_(book), policy_(policy), model_(std::move(model)) {}
  void on_task(std::string_view task) override { task_ = task; }
  void on_end(const agent::TaskResult& result) override;

 private:
  sandbox::ReceiptBook& book_;
  const policy::Policy& policy_;
  std::string model_, task_;
};

}  // namespace membrane::cli
