// The outside world's answers to a run, call by call: enough to repeat it without the outside world.
//
// A journal is JSON lines. The first names the format and its version:
//
//   {"membrane_journal":1}
//   {"sequence":1,"function":"kv.get","arguments_sha256":"…","decision":"allowed","errno":0,
//    "reason":"","grant":"","result":"blue","latency_us":12,"chain":"…"}          (one line)
//
// A decision is "allowed", "denied", "failed", or "approved" by a person. A call that did work for its answer
// (host/work.h) has "fuel":… before its chain. Under the trifecta rule a request that was redirected has
// "heard":[["GET","https://…"],…] before its result: the hops whose servers were reached (HttpRequest::hear).
//
// `chain` is the SHA-256 of the previous chain ("" at the start) and the line without its chain, so that the last
// one identifies the whole journal. Lines are canonical: fields in this order, no white space, strings escaped only
// where JSON requires it.
//
// A run writes to a JournalSink and is answered from a JournalSource. A Journal is both, in memory; for a journal in
// a file, which takes almost no memory, see journal_file.h.
//
// Ownership: a Journal is a value. Threads: one at a time; concurrent reading of a Journal is fine.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "host/broker.h"
#include "host/errno.h"
#include "host/journal_json.h"

namespace membrane::host {

inline constexpr int kJournalVersion = 1;
inline constexpr std::string_view kJournalHeader = "{\"membrane_journal\":1}";

struct JournalEntry {
  uint64_t sequence = 0;         // from 1, without gaps
  std::string function;          // the broker's function: "kv.get"
  std::string arguments_sha256;  // over each argument's length and bytes
  Errno code = Errno::kOk;
  std::string reason;
  std::string grant;
  std::vector<HttpHop> heard = {};  // at most kMaxHttpHops
  std::string result = "null";      // JSON: the text or {"base64":…}, a number, an array, an object
  uint64_t latency_us = 0;
  uint64_t fuel = 0;         // for its work
  bool is_approved = false;  // by a person, under the trifecta rule (flows.h)
  std::string chain;
  // The arguments that a policy decides the call by (recorded_calls.h). Not part of a journal's line: for a sink
  // that stores more.
  std::vector<std::string> decided_by;

  // "allowed", "denied" (EACCES) or "failed"; "approved", whatever the result.
  [[nodiscard]] std::string_view decision() const;
};

// Receives a run's entries as they are made.
class JournalSink {
 public:
  using WriteResult = std::function<void(JsonWriter& out)>;

  virtual ~JournalSink() = default;
  // Numbers the entry and chains it to the previous one. Its result is the output of `result`, which is called once.
  // kUnavailable without libcrypto, or if the entry cannot be stored.
  virtual Status append(JournalEntry entry, const WriteResult& result) = 0;
  // Removes the last entry: its request was not done. Called at most once per entry.
  virtual void drop_last() = 0;
};

// Provides the entries that a run is answered from.
class JournalSource {
 public:
  virtual ~JournalSource() = default;
  [[nodiscard]] virtual uint64_t size() const = 0;
  // The entry at an index below size(). Borrowed until the next call; null when it is no longer available.
  [[nodiscard]] virtual const JournalEntry* entry(uint64_t place) const = 0;
};

class Journal final : public JournalSink, public JournalSource {
 public:
  Status append(JournalEntry entry, const WriteResult& result) override;
  // With its own result.
  Status append(JournalEntry entry);
  void drop_last() override { entries_.pop_back(); }

  [[nodiscard]] uint64_t size() const override { return entries_.size(); }
  [[nodiscard]] const JournalEntry* entry(uint64_t place) const override { return &entries_[place]; }

  [[nodiscard]] const std::vector<JournalEntry>& entries() const { return entries_; }
  // The chain of the last entry; "" of an empty journal.
  [[nodiscard]] std::string_view head() const;

  [[nodiscard]] std::string to_text() const;
  // kInvalidInput for anything that to_text() did not write: another version, a missing or unknown field, a gap in
  // the sequence, a wrong chain. Never crashes.
  static Result<Journal> parse(std::string_view text);

 private:
  std::vector<JournalEntry> entries_;
};

// -- lines, for code that stores them

// Passes the entry's line to `take`, piece by piece, including its newline; its reason and grant must be UTF-8.
// Returns its chain. `head` is the previous chain. Errors: as append().
Result<std::string> write_journal_line(std::string_view head, const JournalEntry& entry,
                                       const JournalSink::WriteResult& result,
                                       const std::function<void(std::string_view piece)>& take);
// Parses the entry in a line without its newline. `number` is the line's, from 1, `head` the previous chain. Takes
// the line, which becomes the entry's result. Errors: as Journal::parse().
Result<JournalEntry> read_journal_line(std::string line, uint64_t number, std::string_view head);
// Parses the entry in a line without its newline, from anywhere in a journal: its chain is not checked.
Result<JournalEntry> read_unchained_line(std::string line);
// Makes an entry's texts valid for lines: a reason may quote bytes that are not UTF-8, which JSON cannot contain.
void repair_texts(JournalEntry& entry);
// Whether the first line is a journal's header.
Status check_journal_header(std::string_view line);

}  // namespace membrane::host
