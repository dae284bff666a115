#include "cli/seal.h"

#include <unistd.h>

#include <filesystem>

namespace membrane::cli {

Result<sandbox::ReceiptKey> signing_key() { return sandbox::load_signing_key(sandbox::default_key_file()); }

Result<std::unique_ptr<sandbox::ReceiptBook>> open_receipt_book(const std::string& directory) {
  if (directory.empty()) return nullptr;
  MEMBRANE_ASSIGN(sandbox::ReceiptKey key, signing_key());
  MEMBRANE_ASSIGN(sandbox::ReceiptBook book, sandbox::ReceiptBook::open(directory, std::move(key)));
  return std::make_unique<sandbox::ReceiptBook>(std::move(book));
}

int complain_unsealed(const Error& error) {
  (void)complain({error.code, "it ran, and is not sealed: " + error.message, error.hint});
  return kExitMembrane;
}

void add_force(CLI::App& command, bool& force) {
  command.add_flag("--force", force, "Let --seal replace an existing receipt")->needs("--seal");
}

Status check_receipt_path(const std::string& path, bool force) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  const std::string place = folder.empty() ? "." : folder.string();
  std::error_code error;
  if (access(place.c_str(), W_OK) != 0 || std::filesystem::is_directory(path, error))
    return fail(ErrorCode::kUnavailable, "cannot write " + path, "Name a file in a writable directory.");
  for (const std::string& file : {path, path + ".private"})
    if (!force && std::filesystem::exists(std::filesystem::symlink_status(file, error)))
      return fail(ErrorCode::kInvalidArgument, file + " already exists, and a receipt is not replaced",
                  "Use another name, or --force to replace it.");
  return {};
}

Result<std::unique_ptr<RunSeal>> RunSeal::open(std::string path, bool force) {
  if (path.empty()) return nullptr;
  MEMBRANE_ASSIGN(sandbox::ReceiptKey key, signing_key());
  MEMBRANE_TRY(check_receipt_path(path, force));
  return std::unique_ptr<RunSeal>(new RunSeal(std::move(path), std::move(key)));
}

void RunSeal::attach(sandbox::RunOptions& run_options) {
  recorder_.emplace(key_, run_options.record);
  recorder_->attach(run_options);
}

void RunSeal::in_language(std::shared_ptr<const sandbox::Template> language, const policy::Policy& policy,
                          const sandbox::Turn& turn) {
  language_ = std::move(language);
  policy_ = policy;
  invocation_.name = turn.name;
  invocation_.is_script = turn.is_script;
  invocation_.given_input = turn.input;
}

void RunSeal::in_computer(std::string description, sandbox::Invocation invocation) {
  computer_ = std::move(description);
  invocation_ = std::move(invocation);
  recorder_.emplace(key_);
}

Status RunSeal::finish(const sandbox::Program& program, const policy::Policy& policy,
                       const sandbox::Report& report) {
  sandbox::MadeOf made_of{program.source, invocation_, language_.get(),
                          language_ == nullptr ? &policy : &policy_};
  made_of.computer = computer_;
  if (computer_.empty()) made_of.invocation.arguments = program.arguments;
  if (language_ == nullptr && computer_.empty()) {
    made_of.invocation.name = program.name;
    made_of.invocation.entry = program.entry;
    made_of.invocation.environment = program.environment;
    made_of.invocation.given_input = program.input;
  }
  MEMBRANE_ASSIGN(const sandbox::SealedReceipt sealed, recorder_->seal_run(std::move(made_of), report));
  return sandbox::write_receipt(path_, sealed);
}

void RunSeal::announce() const { print(stderr, "receipt: " + path_ + ", and " + path_ + ".private\n"); }

void TaskSealer::on_end(const agent::TaskResult& result) {
  sandbox::SealedTask task;
  task.text = task_;
  task.answer = result.answer;
  task.stop = agent::name_of(result.stop);
  task.model = model_;
  task.policy = &policy_;
  task.fuel = result.totals.fuel;
  (void)book_.keep_task(std::move(task));  // the book reports what it could not keep
}

}  // namespace membrane::cli
