// Journals in files, written and read entry by entry: reading takes as much memory as the longest entry, and writing
// takes constant memory.
//
// Ownership: each owns its file. Threads: one at a time.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "host/journal.h"

namespace membrane::host {

// A journal that is being recorded. Appended entries remain if the run fails.
class JournalFileWriter final : public JournalSink {
 public:
  // Creates the file, or empties it. kUnavailable.
  static Result<std::unique_ptr<JournalFileWriter>> create(std::string path);
  Status append(JournalEntry entry, const WriteResult& result) override;
  void drop_last() override;
  // Flushes and closes the file. kUnavailable when a part of it could not be written.
  Status finish();

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  explicit JournalFileWriter(std::string path, std::FILE* file) : path_(std::move(path)), file_(file) {}
  void put(std::string_view text);

  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  bool is_whole_ = true;  // everything has been written so far
  int why_not_ = 0;       // errno
  uint64_t count_ = 0;
  std::string head_;
  long last_at_ = 0;       // offset of the last entry
  std::string last_head_;  // and the chain before it
};

// A journal that answers a run.
class JournalFileReader final : public JournalSource {
 public:
  static constexpr uint64_t kMaxLineBytes = 1u << 30;  // per entry

  // Reads it once to its end, and verifies it; polls StopScope::stop_wanted() meanwhile. The file must be seekable.
  // Errors: kUnavailable, kNotFound; as Journal::parse(); kExhausted when it was stopped.
  static Result<std::unique_ptr<JournalFileReader>> open(std::string path);
  ~JournalFileReader() override;

  [[nodiscard]] uint64_t size() const override { return size_; }
  // Fast for the entry after the last one; others are searched from the start.
  [[nodiscard]] const JournalEntry* entry(uint64_t place) const override;

 private:
  class Lines;
  explicit JournalFileReader(std::unique_ptr<Lines> lines);

  std::unique_ptr<Lines> lines_;
  uint64_t size_ = 0;
};

}  // namespace membrane::host
