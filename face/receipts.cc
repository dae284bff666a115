#include "face/receipts.h"

#include <filesystem>
#include <utility>

#include "face/convert.h"
#include "sandbox/receipts/receipt.h"

namespace membrane {

namespace {

namespace fs = std::filesystem;

// The file that the options name, as an absolute path: the process may change its directory.
std::string key_file_of(const ReceiptsOptions& options) {
  if (options.key_file.empty()) return sandbox::default_key_file();
  std::error_code failed;
  const fs::path whole = fs::absolute(options.key_file, failed);
  return failed ? options.key_file : whole.string();
}

Result<sandbox::ReceiptKey> key_of(const ReceiptsOptions& options) {
  const std::string file = key_file_of(options);
  auto key = sandbox::load_signing_key(file);
  if (key || !options.makes_key || key.error().code != ErrorCode::kNotFound) return key;
  std::error_code ignored;
  if (fs::exists(file, ignored)) return key;  // its last key was revoked: the owner has to make another
  sandbox::KeyRing keys;
  MEMBRANE_TRY(keys.rotate(sandbox::receipt_time_now()));
  MEMBRANE_TRY(sandbox::save_own_keys(keys, file));
  return *keys.signing();
}

Result<std::unique_ptr<sandbox::ReceiptBook>> open_book(std::string directory,
                                                        const ReceiptsOptions& options) {
  MEMBRANE_ASSIGN(sandbox::ReceiptKey key, key_of(options));
  MEMBRANE_ASSIGN(sandbox::ReceiptBook book,
                  sandbox::ReceiptBook::open(std::move(directory), std::move(key)));
  return std::make_unique<sandbox::ReceiptBook>(std::move(book));
}

}  // namespace

Expected<Receipts> Receipts::open(std::string directory, const ReceiptsOptions& options) {
  auto book = open_book(std::move(directory), options);
  if (!book) return std::unexpected(face::failure_of(book.error()));
  auto state = std::make_shared<State>();
  state->own = *std::move(book);
  state->book = state->own.get();
  return Receipts(std::move(state));
}

std::optional<Failure> Receipts::problem() const {
  const std::lock_guard lock(state_->mutex);
  const auto& problem = state_->book->problem();
  return problem ? std::optional(face::failure_of(*problem)) : std::nullopt;
}

}  // namespace membrane

namespace membrane::face {

std::unexpected<Error> not_sealed(std::string_view what) {
  return fail(ErrorCode::kUnsupported,
              "what is sealed " + std::string(what) +
                  ": its receipts say what can be run again from the beginning, turn by turn, by others",
              "Leave that out, or leave out the receipts.");
}

Status check_sealed(const SessionOptions& options) {
  if (!options.functions.empty() || !options.types.empty() || options.call_many)
    return not_sealed("has no functions or types of the embedder's");
  if (!options.inputs.empty() || !options.modules.empty())
    return not_sealed("has no inputs or modules of the embedder's");
  if (options.clock.kind != SessionClock::Kind::kByPolicy ||
      options.sleep.kind != SessionSleep::Kind::kByClock ||
      options.entropy.kind != SessionEntropy::Kind::kByPolicy || !options.timezone.empty())
    return not_sealed("has the policy's clock, sleep and entropy, and the time zone UTC");
  return {};
}

Seal::Seal(Receipts receipts, std::shared_ptr<const sandbox::Template> language)
    : receipts_(std::move(receipts)), language_(std::move(language)) {
  const std::lock_guard lock(receipts_.state().mutex);
  recorder_ = receipts_.state().book->new_recorder();
}

void Seal::attach(sandbox::RunOptions& options) {
  recorder_->attach(options);
  policy_ = options.policy;
}

Status Seal::has_room_for(std::string_view path, std::string_view bytes) const {
  return recorder_->has_room_for(path.size() + bytes.size());
}

void Seal::keep(const sandbox::Turn& turn, Report& report) {
  sandbox::MadeOf made_of;
  made_of.source = turn.code;
  made_of.invocation.name = turn.name;
  made_of.invocation.is_script = turn.is_script;
  made_of.invocation.arguments = turn.arguments;
  made_of.invocation.given_input = turn.input;
  keep(std::move(made_of), report, true);
}

void Seal::keep(const sandbox::Program& program, Report& report) {
  sandbox::MadeOf made_of;
  made_of.source = program.source;
  made_of.invocation.name = program.name;
  made_of.invocation.entry = program.entry;
  made_of.invocation.arguments = program.arguments;
  made_of.invocation.environment = program.environment;
  made_of.invocation.given_input = program.input;
  keep(std::move(made_of), report, false);
}

void Seal::keep(sandbox::MadeOf made_of, Report& report, bool is_turn) {
  made_of.language = language_.get();
  made_of.policy = &policy_;
  const std::lock_guard lock(receipts_.state().mutex);
  sandbox::ReceiptBook& book = *receipts_.state().book;
  auto kept = is_turn ? book.keep_turn(*recorder_, std::move(made_of), *report.rendered)
                      : book.keep_run(*recorder_, std::move(made_of), *report.rendered);
  if (kept) {
    report.receipt = *std::move(kept);
    return;
  }
  if (is_turn) recorder_->break_chain(kept.error().message);
  report.unsealed = failure_of(kept.error());
}

}  // namespace membrane::face
