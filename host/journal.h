// What the world answered to a run, call by call: enough to run it again without the world.
//
// A journal is JSON lines. The first names the format and its version:
//
//   {"membrane_journal":1}
//   {"sequence":1,"function":"kv.get","arguments_sha256":"…","decision":"allowed","errno":0,
//    "reason":"","grant":"","result":"blue","latency_us":12,"chain":"…"}          (one line)
//
// A call that worked for its answer (host/work.h) has "fuel":… before its chain.
//
// `chain` is the SHA-256 of the chain before it ("" at the start) and the line without its
// chain, so that the last one stands for the whole journal. Lines are canonical: fields in
// this order, no white space, strings escaped only where JSON demands it.
//
// Ownership: a value. Threads: one at a time; reading from many is fine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "host/errno.h"

namespace membrane::host {

inline constexpr int kJournalVersion = 1;

struct JournalEntry {
  uint64_t sequence = 0;         // from 1, without gaps
  std::string function;          // of the broker: "kv.get"
  std::string arguments_sha256;  // of each argument's length and bytes
  Errno code = Errno::kOk;
  std::string reason;
  std::string grant;
  std::string result = "null";  // JSON: the text or {"base64":…}, a number, an array, an object
  uint64_t latency_us = 0;
  uint64_t fuel = 0;  // of its work
  std::string chain;

  // "allowed", "denied" (EACCES) or "failed".
  [[nodiscard]] std::string_view decision() const;
};

class Journal {
 public:
  // Numbers the entry and chains it to the one before. Fails when there is no libcrypto.
  Status append(JournalEntry entry);
  // There is one.
  void drop_last() { entries_.pop_back(); }

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

}  // namespace membrane::host
