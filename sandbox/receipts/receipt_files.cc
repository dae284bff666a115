#include "sandbox/receipts/receipt_files.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>

#include "base/private_file.h"
#include "base/text.h"

namespace membrane::sandbox {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnding = ".receipt";
constexpr size_t kMostReceipts = 100'000;
constexpr size_t kNameDigits = 8;

Status write_file(const std::string& path, std::string_view text) {
  MEMBRANE_ASSIGN(NewFile file, NewFile::create(path));
  MEMBRANE_TRY(file.write(0, {reinterpret_cast<const uint8_t*>(text.data()), text.size()}));
  return file.publish();
}

Result<std::string> read_file(const std::string& path, uint64_t most_bytes) {
  std::error_code error;
  if (fs::is_directory(path, error))
    return fail(ErrorCode::kInvalidArgument, path + " is a directory", "Name a receipt in it.");
  errno = 0;
  const OpenedFile file(path);
  if (!file.usable() && errno == 0)
    return fail(ErrorCode::kInvalidArgument, path + " is not a file", "Name a receipt.");
  if (!file.usable())
    return fail(access(path.c_str(), F_OK) != 0 ? ErrorCode::kNotFound : ErrorCode::kUnavailable,
                "cannot read " + path + ": " + std::strerror(errno));
  if (file.bytes() > most_bytes)
    return fail(ErrorCode::kTooLong, path + " has more than " + count_of(most_bytes, "byte"));
  std::string text(file.bytes(), '\0');
  for (size_t done = 0; done < text.size();) {
    const ssize_t got =
        pread(file.number(), text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return refused_by_system("read", path);
    done += static_cast<size_t>(got);
  }
  return text;
}

std::unexpected<Error> in_file(const std::string& path, Error error) {
  error.message = path + ": " + error.message;
  return std::unexpected(std::move(error));
}

Result<SealedRun> read_sealed(const std::string& path, const KeyRing& keys) {
  MEMBRANE_ASSIGN(Receipt receipt, read_receipt(path));
  if (auto good = verify(receipt, keys); !good) return in_file(path, good.error());
  MEMBRANE_ASSIGN(auto content, read_private_part(path, receipt));
  if (!content)
    return fail(ErrorCode::kNotFound, path + std::string(kPrivateEnding) + " does not exist",
                "Repeating a run needs the private part: put it beside the receipt.");
  return SealedRun{std::move(receipt), *std::move(content)};
}

}  // namespace

std::string name_of_turn(const ReceiptHead& head) {
  std::string number = std::to_string(head.turn);
  number.insert(0, number.size() < 4 ? 4 - number.size() : 0, '0');
  return head.session.substr(0, kNameDigits) + "-" + number + std::string(kEnding);
}

Status write_receipt(const std::string& path, const SealedReceipt& sealed) {
  MEMBRANE_TRY(write_file(path + std::string(kPrivateEnding), sealed.private_text));
  return write_file(path, sealed.text);
}

Result<Receipt> read_receipt(const std::string& path) {
  MEMBRANE_ASSIGN(const std::string text, read_file(path, kMaxReceiptBytes));
  auto receipt = Receipt::parse(text);
  if (!receipt) return in_file(path, receipt.error());
  return receipt;
}

Result<std::optional<PrivatePart>> read_private_part(const std::string& path, const Receipt& receipt) {
  const std::string beside = path + std::string(kPrivateEnding);
  auto text = read_file(beside, kMaxPrivateBytes);
  if (!text && text.error().code == ErrorCode::kNotFound) return std::optional<PrivatePart>();
  if (!text) return std::unexpected(std::move(text).error());
  auto part = PrivatePart::parse(*std::move(text), receipt);
  if (!part) return in_file(beside, part.error());
  return std::optional(*std::move(part));
}

Result<std::vector<std::string>> receipts_in(const std::string& directory) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    if (!at->path().string().ends_with(kEnding)) continue;
    found.push_back(at->path().string());
    if (found.size() > kMostReceipts)
      return fail(ErrorCode::kTooLong,
                  directory + " has more than " + std::to_string(kMostReceipts) + " receipts");
  }
  if (error)
    return fail(ErrorCode::kNotFound, "cannot list " + directory + ": " + error.message(),
                "Give a directory with receipts.");
  std::ranges::sort(found);
  return found;
}

Result<std::vector<SealedRun>> read_turns(const std::string& path, const KeyRing& keys) {
  std::vector<SealedRun> turns;
  MEMBRANE_ASSIGN(SealedRun last, read_sealed(path, keys));
  std::string previous = last.receipt.head.previous;
  turns.push_back(std::move(last));
  std::map<std::string, std::string> by_digest;
  if (!previous.empty()) {
    const std::string directory = fs::path(path).parent_path().string();
    MEMBRANE_ASSIGN(const auto files, receipts_in(directory.empty() ? "." : directory));
    for (const std::string& file : files)
      if (const auto receipt = read_receipt(file)) by_digest.emplace(receipt->digest, file);
  }
  while (!previous.empty()) {
    const auto found = by_digest.find(previous);
    if (found == by_digest.end())
      return fail(ErrorCode::kNotFound,
                  path + " belongs to a turn of a session, and the receipt of the turn before, " + previous +
                      ", is not beside it",
                  "Put the session's receipts into one directory.");
    MEMBRANE_ASSIGN(SealedRun turn, read_sealed(found->second, keys));
    by_digest.erase(found);
    previous = turn.receipt.head.previous;
    turns.push_back(std::move(turn));
  }
  std::ranges::reverse(turns);
  return turns;
}

Result<ReceiptBook> ReceiptBook::open(std::string directory, ReceiptKey key) {
  if (!make_directory(directory)) return refused_by_system("make", directory);
  if (!fs::is_directory(directory))
    return fail(ErrorCode::kUnavailable, directory + " is not a directory",
                "Name a directory: each turn has a receipt of its own.");
  return ReceiptBook(std::move(directory), std::move(key));
}

std::unique_ptr<ReceiptRecorder> ReceiptBook::new_recorder() const {
  return std::make_unique<ReceiptRecorder>(key_);
}

Result<std::string> ReceiptBook::write(const SealedReceipt& sealed, bool is_task) {
  MEMBRANE_ASSIGN(const Receipt receipt, Receipt::parse(sealed.text));
  const ReceiptHead& head = receipt.head;
  const std::string name = head.kind == ReceiptKind::kTurn
                               ? name_of_turn(head)
                               : std::string(name_of(head.kind)) + "-" +
                                     sealed.digest.substr(0, kNameDigits) + std::string(kEnding);
  const std::string path = directory_ + "/" + name;
  const Status written = write_receipt(path, sealed);
  if (is_task) kept_.clear();
  else kept_.emplace_back(sealed.digest, name);
  if (!written) return std::unexpected(written.error());
  return path;
}

Result<std::string> ReceiptBook::keep(Result<SealedReceipt> sealed, bool is_task) {
  auto kept = sealed ? write(*sealed, is_task) : Result<std::string>(std::unexpected(sealed.error()));
  if (!kept && !problem_) problem_ = kept.error();
  return kept;
}

Result<std::string> ReceiptBook::keep_run(ReceiptRecorder& recorder, MadeOf made_of, const Report& report) {
  return keep(recorder.seal_run(std::move(made_of), report), false);
}

Result<std::string> ReceiptBook::keep_turn(ReceiptRecorder& recorder, MadeOf made_of, const Report& report) {
  return keep(recorder.seal_turn(std::move(made_of), report), false);
}

Result<std::string> ReceiptBook::keep_task(SealedTask task) {
  task.turns = kept_;
  return keep(seal_task(task, key_), true);
}

}  // namespace membrane::sandbox
