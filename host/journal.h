// What the world answered to a run, call by call: enough to run it again without the world.
//
// A journal is JSON lines. The first names the format and its version:
//
//   {"membrane_journal":1}
//   {"sequence":1,"function":"kv.get","arguments_sha256":"…","decision":"allowed","errno":0,
//    "reason":"","grant":"","result":"blue","latency_us":12,"chain":"…"}          (one line)
//
// A decision is "allowed", "denied", "failed", or "approved" by a person. A call that worked for its answer (host/work.h) has "fuel":… before its chain.
// Under the trifecta rule a request that was redirected has "heard":[["GET","https://…"],…] before its result: the hops
// whose servers were reached (HttpRequest::hear).
//
// `chain` is the SHA-256 of the chain before it ("" at the start) and the line without its
// chain, so that the last one stands for the whole journal. Lines are canonical: fields in
// this order, no white space, strings escaped only where JSON demands it.
//
// A run writes to a JournalSink and is answered from a JournalSource. A Journal is both, in memory; a journal in a
// file, which takes next to none, is journal_file.h.
//
// Ownership: a Journal is a value. Threads: one at a time; reading a Journal from many is fine.
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
  std::string function;          // of the broker: "kv.get"
  std::string arguments_sha256;  // of each argument's length and bytes
  Errno code = Errno::kOk;
  std::string reason;
  std::string grant;
  std::vector<HttpHop> heard = {};  // at most kMaxHttpHops
  std::string result = "null";      // JSON: the text or {"base64":…}, a number, an array, an object
  uint64_t latency_us = 0;
  uint64_t fuel = 0;         // of its work
  bool is_approved = false;  // by a person, as the trifecta rule asks (flows.h)
  std::string chain;
  // The arguments that a policy decides the call by (recorded_calls.h). No part of a journal's line: for a sink that
  // keeps more.
  std::vector<std::string> decided_by;

  // "allowed", "denied" (EACCES) or "failed"; "approved", whatever came of it.
  [[nodiscard]] std::string_view decision() const;
};

// Who takes a run's entries as they are made.
class JournalSink {
 public:
  using WriteResult = std::function<void(JsonWriter& out)>;

  virtual ~JournalSink() = default;
  // Numbers the entry and chains it to the one before. Its result is what `result` writes, which is called once.
  // kUnavailable when there is no libcrypto, or the entry cannot be kept.
  virtual Status append(JournalEntry entry, const WriteResult& result) = 0;
  // Forgets the entry that was appended last: what it says was not done. There is one, and this is not called twice for it.
  virtual void drop_last() = 0;
};

// Who has the entries that a run is answered from.
class JournalSource {
 public:
  virtual ~JournalSource() = default;
  [[nodiscard]] virtual uint64_t size() const = 0;
  // That of a place below size(), from 0. Borrowed until the next call; null when it cannot be had any more.
  [[nodiscard]] virtual const JournalEntry* entry(uint64_t place) const = 0;
};

class Journal final : public JournalSink, public JournalSource {
 public:
  Status append(JournalEntry entry, const WriteResult& result) override;
  // With the result that it has.
  Status append(JournalEntry entry);
  void drop_last() override { entries_.pop_back(); }

  [[nodiscard]] uint64_t size() const override { return entries_.size(); }
  [[nodiscard]] const JournalEntry* entry(uint64_t place) const override { return &entries_[place]; }

  [[nodiscard]] const std::vector<JournalEntry>& entries() const { return entries_; }
  // The chain of the last entry; "" of an empty journal.
  [[nodiscard]] std::string_view head() const;

  [[nodiscard]] std::string to_text() const;
  // kInvalidInput for anything that to_text() did not write: another version, a field that is
  // missing or unknown, a gap in the sequence, a chain that does not hold. Never crashes.
  static Result<Journal> parse(std::string_view text);

 private:
  std::vector<JournalEntry> entries_;
};

// -- lines, for whoever keeps them

// Gives `take` the entry's line, piece by piece, with its end; its reason and grant must be UTF-8. Returns its chain.
// `head` is the chain before it. Errors: as append().
Result<std::string> write_journal_line(std::string_view head, const JournalEntry& entry,
                                       const JournalSink::WriteResult& result,
                                       const std::function<void(std::string_view piece)>& take);
// The entry in a line without its end. `number` is the line's, from 1, `head` the chain before it. Takes the line, which
// becomes the entry's result. Errors: as Journal::parse().
Result<JournalEntry> read_journal_line(std::string line, uint64_t number, std::string_view head);
// The entry in a line without its end, which may be of the middle of a journal: its chain is not checked.
Result<JournalEntry> read_unchained_line(std::string line);
// An entry's texts as lines can hold them: a reason may quote what is not UTF-8, and JSON cannot carry that.
void repair_texts(JournalEntry& entry);
// Whether the first line is a journal's.
Status check_journal_header(std::string_view line);

}  // namespace membrane::host
