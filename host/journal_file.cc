#include "host/journal_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "base/stop_scope.h"

namespace membrane::host {

// -- writing ------------------------------------------------------------------------------------------------------

Result<std::unique_ptr<JournalFileWriter>> JournalFileWriter::create(std::string path) {
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  if (file == nullptr)
    return fail(ErrorCode::kUnavailable, "cannot write " + path + ": " + std::strerror(errno));
  std::unique_ptr<JournalFileWriter> made(new JournalFileWriter(std::move(path), file));
  made->put(kJournalHeader);
  made->put("\n");
  return made;
}

void JournalFileWriter::put(std::string_view text) {
  if (!is_whole_ || std::fwrite(text.data(), 1, text.size(), file_.get()) == text.size()) return;
  is_whole_ = false;
  why_not_ = errno;
}

Status JournalFileWriter::append(JournalEntry entry, const WriteResult& result) {
  last_at_ = std::ftell(file_.get());
  last_head_ = head_;
  entry.sequence = ++count_;
  repair_texts(entry);
  MEMBRANE_ASSIGN(head_,
                  write_journal_line(head_, entry, result, [this](std::string_view piece) { put(piece); }));
  if (is_whole_) return {};
  return fail(ErrorCode::kUnavailable, "cannot write " + path_ + ": " + std::strerror(why_not_));
}

void JournalFileWriter::drop_last() {
  --count_;
  head_ = last_head_;
  if (is_whole_ && last_at_ >= 0 && std::fflush(file_.get()) == 0 &&
      ftruncate(fileno(file_.get()), last_at_) == 0 && std::fseek(file_.get(), last_at_, SEEK_SET) == 0)
    return;
  if (is_whole_) why_not_ = last_at_ < 0 ? ESPIPE : errno;
  is_whole_ = false;
}

Status JournalFileWriter::finish() {
  if (is_whole_ && std::fflush(file_.get()) != 0) {
    is_whole_ = false;
    why_not_ = errno;
  }
  if (is_whole_) return {};
  return fail(ErrorCode::kUnavailable, "cannot write " + path_ + ": " + std::strerror(why_not_));
}

// -- reading ------------------------------------------------------------------------------------------------------

// The file, line by line from its start. Owns the descriptor.
class JournalFileReader::Lines {
 public:
  Lines(std::string path, int file) : path_(std::move(path)), file_(file) {}
  ~Lines() { close(file_); }
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;

  // To the line after the header.
  Status rewind() {
    entry_ = {};
    line_number_ = at_ = 0;
    seen_.clear();  // the file may have changed
    MEMBRANE_ASSIGN(const std::optional<std::string> header, line());
    return check_journal_header(header.value_or(""));
  }

  // Reads the entry of the next line. False: there is none.
  Result<bool> next() {
    const std::string head = std::move(entry_.chain);
    entry_ = {};  // there is no room for two
    MEMBRANE_ASSIGN(std::optional<std::string> text, line());
    if (!text) return false;
    MEMBRANE_ASSIGN(entry_, read_journal_line(*std::move(text), line_number_, head));
    return true;
  }

  // Number of entries read since rewind().
  [[nodiscard]] uint64_t count() const { return line_number_ - 1; }
  [[nodiscard]] const JournalEntry& entry() const { return entry_; }

 private:
  // Without its newline. Nothing at the end of the file.
  Result<std::optional<std::string>> line() {
    std::string text;
    MEMBRANE_ASSIGN(const std::optional<uint64_t> size, size_of_line());
    if (!size) return std::optional<std::string>();
    text.reserve(*size);
    while (text.size() < *size) {
      MEMBRANE_ASSIGN(const std::string_view piece, seen_from(at_ + text.size()));
      if (piece.empty()) return cut_off();
      text += piece.substr(0, *size - text.size());
    }
    at_ += *size + 1;
    return text;
  }

  // Nothing at the end of the file.
  Result<std::optional<uint64_t>> size_of_line() {
    for (uint64_t size = 0;;) {
      MEMBRANE_ASSIGN(const std::string_view piece, seen_from(at_ + size));
      if (piece.empty() && size == 0) return std::optional<uint64_t>();
      if (size == 0) ++line_number_;
      if (piece.empty()) return cut_off();
      const size_t end = std::min(piece.find('\n'), piece.size());
      if (is_stopped(end)) return fail(ErrorCode::kExhausted, "the journal was not read to its end");
      if (size + end > kMaxLineBytes)
        return fail(ErrorCode::kInvalidInput,
                    "the journal's line " + std::to_string(line_number_) + " is longer than an entry can be");
      if (end < piece.size()) return size + end;
      size += piece.size();
    }
  }

  // Some bytes of the file from there; empty at its end.
  Result<std::string_view> seen_from(uint64_t offset) {
    constexpr size_t kSeenBytes = 64u << 10;
    if (offset < seen_at_ || offset >= seen_at_ + seen_.size()) {
      seen_.resize(kSeenBytes);
      const ssize_t count = pread(file_, seen_.data(), seen_.size(), static_cast<off_t>(offset));
      const int why = errno;
      seen_.resize(static_cast<size_t>(std::max<ssize_t>(count, 0)));
      seen_at_ = offset;
      if (count < 0) return fail(ErrorCode::kUnavailable, "cannot read " + path_ + ": " + std::strerror(why));
    }
    return std::string_view(seen_).substr(offset - seen_at_);
  }

  // A step of the scope should take about ten nanoseconds.
  static bool is_stopped(size_t bytes) {
    constexpr size_t kBytesInAStep = 16;
    bool stops = false;
    for (size_t i = 0; i <= bytes / kBytesInAStep && !stops; ++i) stops = StopScope::stop_wanted();
    return stops;
  }

  [[nodiscard]] std::unexpected<Error> cut_off() const {
    return fail(ErrorCode::kInvalidInput,
                "the journal's line " + std::to_string(line_number_) + " does not end",
                "a journal can only be used as Membrane wrote it");
  }

  std::string path_;
  int file_;
  uint64_t at_ = 0;  // offset of the next line
  uint64_t line_number_ = 0;
  std::string seen_;  // a part of the file
  uint64_t seen_at_ = 0;
  JournalEntry entry_;
};

JournalFileReader::JournalFileReader(std::unique_ptr<Lines> lines) : lines_(std::move(lines)) {}
JournalFileReader::~JournalFileReader() = default;

Result<std::unique_ptr<JournalFileReader>> JournalFileReader::open(std::string path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return fail(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kUnavailable,
                "cannot open " + path + ": " + std::strerror(errno));
  auto lines = std::make_unique<Lines>(std::move(path), file);
  MEMBRANE_TRY(lines->rewind());
  for (bool more = true; more;) {
    MEMBRANE_ASSIGN(more, lines->next());
  }
  std::unique_ptr<JournalFileReader> made(new JournalFileReader(std::move(lines)));
  made->size_ = made->lines_->count();
  MEMBRANE_TRY(made->lines_->rewind());
  return made;
}

const JournalEntry* JournalFileReader::entry(uint64_t place) const {
  if (lines_->count() > place + 1 && !lines_->rewind()) return nullptr;
  while (lines_->count() < place + 1)
    if (!lines_->next().value_or(false)) return nullptr;
  return &lines_->entry();
}

}  // namespace membrane::host
