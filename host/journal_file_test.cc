#include "host/journal_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/stop_scope.h"

namespace membrane::host {
namespace {

class JournalFile : public ::testing::Test {
 protected:
  JournalFile() : path_(::testing::TempDir() + "membrane-journal-" + std::to_string(getpid())) {}
  ~JournalFile() override { std::filesystem::remove(path_); }

  [[nodiscard]] std::string text() const {
    std::ostringstream out;
    out << std::ifstream(path_).rdbuf();
    return out.str();
  }
  void put(const std::string& text) const { std::ofstream(path_) << text; }

  std::string path_;
};

JournalEntry entry(std::string function, std::string reason = "") {
  JournalEntry made;
  made.function = std::move(function);
  made.arguments_sha256 = std::string(64, 'a');
  made.reason = std::move(reason);
  made.code = made.reason.empty() ? Errno::kOk : Errno::kAccess;
  made.latency_us = 12;
  return made;
}

// The same entries for any sink.
void fill(JournalSink& journal) {
  const auto write = [](const std::string& bytes) { return [bytes](JsonWriter& out) { out.bytes(bytes); }; };
  EXPECT_TRUE(journal.append(entry("kv.get"), write("blue \"é\" \n")));
  EXPECT_TRUE(journal.append(entry("http.request", "no grant \xFF"), write("")));
  EXPECT_TRUE(journal.append(entry("fs.read"), write(std::string(300'000, '\xFF'))));
  JournalEntry worked = entry("sql.query");
  for (const uint64_t fuel : {7, 12'000}) {  // the first fell short, and the call was repeated
    if (worked.fuel != 0) journal.drop_last();
    worked.fuel = fuel;
    EXPECT_TRUE(journal.append(worked, write("[]")));
  }
}

TEST_F(JournalFile, HasWhatAJournalInMemoryHas) {
  Journal journal;
  fill(journal);
  const auto file = JournalFileWriter::create(path_);
  ASSERT_TRUE(file) << file.error().message;
  fill(**file);
  ASSERT_TRUE((*file)->finish());
  EXPECT_EQ(text(), journal.to_text());

  const auto read = JournalFileReader::open(path_);
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ((*read)->size(), 4u);
  for (const uint64_t place : {0u, 0u, 1u, 2u, 3u, 0u, 2u, 1u}) {
    const JournalEntry* const found = (*read)->entry(place);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->result, journal.entries()[place].result) << place;
    EXPECT_EQ(found->reason, journal.entries()[place].reason);
    EXPECT_EQ(found->chain, journal.entries()[place].chain);
  }
}

TEST_F(JournalFile, WhatWasChangedOrCutIsFoundBeforeItIsUsed) {
  Journal journal;
  fill(journal);
  const std::string whole = journal.to_text();
  EXPECT_EQ(JournalFileReader::open(path_).error().code, ErrorCode::kNotFound);
  for (const size_t at : {size_t{5}, size_t{40}, whole.size() / 2, whole.size() - 3}) {
    std::string changed = whole;
    changed[at] = changed[at] == '7' ? '8' : '7';
    put(changed);
    EXPECT_EQ(JournalFileReader::open(path_).error().code, ErrorCode::kInvalidInput) << at;
    put(whole.substr(0, at));
    EXPECT_EQ(JournalFileReader::open(path_).error().code, ErrorCode::kInvalidInput) << at;
  }
  put(whole + "\n");
  EXPECT_FALSE(JournalFileReader::open(path_));
  put(whole + std::string("\0\n", 2));
  EXPECT_FALSE(JournalFileReader::open(path_));
  put("");
  EXPECT_FALSE(JournalFileReader::open(path_));
}

TEST_F(JournalFile, ThatChangesWhileItAnswersAnswersNoMore) {
  Journal journal;
  fill(journal);
  put(journal.to_text());
  const auto read = JournalFileReader::open(path_);
  ASSERT_TRUE(read);
  ASSERT_NE((*read)->entry(2), nullptr);
  put("{\"membrane_journal\":1}\n");
  EXPECT_EQ((*read)->entry(0), nullptr);
}

TEST_F(JournalFile, ReadingEndsWhenItIsStopped) {
  Journal journal;
  fill(journal);
  put(journal.to_text());
  const StopScope scope([] { return true; });
  const auto read = JournalFileReader::open(path_);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::kExhausted);
}

TEST_F(JournalFile, WhatCannotBeWrittenIsAnError) {
  EXPECT_EQ(JournalFileWriter::create(path_ + "/no/such").error().code, ErrorCode::kUnavailable);
  const auto full = JournalFileWriter::create("/dev/full");
  if (!full) GTEST_SKIP() << "there is no /dev/full";
  Status appended;
  for (int i = 0; i < 10 && appended; ++i)
    appended =
        (*full)->append(entry("fs.read"), [](JsonWriter& out) { out.bytes(std::string(300'000, 'x')); });
  EXPECT_FALSE(appended);
  EXPECT_FALSE((*full)->finish());
}

}  // namespace
}  // namespace membrane::host
