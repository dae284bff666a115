// What a broker was asked for and answered, kept by whoever holds the broker: enough to tell whether a list of host calls
// that somebody else made of it is true.
//
//   worker: capability, WASI ─▶ CallRecord, a line of the report       its word
//   supervisor: BrokerGate ─▶ CallLedger                               what happened
//   CallLedger::difference(lines): nothing, or what does not fit
//
// A line may be of several requests (a file that is read in pieces), and a request may have no line (a clock, a file that
// is opened again after a fork); call_ledger.def says which line belongs to which request. Every effect has its line, and
// every line that claims an effect, a refusal or data has its request, with the same target, error number and bytes.
//
// Bounded: past kMostEntries or kMostTextBytes requests are only counted.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host/dispatch.h"
#include "host/errno.h"

namespace membrane::host {

class CallLedger {
 public:
  static constexpr size_t kMostEntries = 2 * Dispatcher::kMaxRecords;
  static constexpr size_t kMostTextBytes = 2 * Dispatcher::kMaxRecordBytes;

  // A run or a turn begins: what was noted is forgotten, but for files that are open.
  void begin();

  // A request that was answered. `error`: null when it succeeded; `bytes_in`: of the answer's content; `handle`: of the
  // file that it opened. `function` lives as long as the program.
  void note(std::string_view function, std::span<const std::string_view> arguments, const HostError* error,
            uint64_t bytes_in, std::optional<uint64_t> handle);

  struct List {
    std::span<const CallRecord> lines;
    uint64_t dropped = 0;          // more calls, which the list had no room for
    bool is_full = false;          // the list, with what was there before, has no room for one more
    bool is_paused = false;        // the program goes on later: files that are open have no line yet
    bool began_elsewhere = false;  // the program was frozen before, and may have had files open
  };
  // Whether a list may have had no room for one line more, as a program's dispatcher makes it.
  static bool is_full(std::span<const CallRecord> lines);

  // The first thing that does not fit, as the end of a sentence: "leaves out http.request of GET, https://…".
  [[nodiscard]] std::optional<std::string> difference(const List& list) const;

  // What was noted, in the broker's own words: a line for each request, and one for each file that was read or written.
  [[nodiscard]] std::vector<CallRecord> lines() const;
  [[nodiscard]] uint64_t not_kept() const { return not_kept_; }

 private:
  struct Entry {
    std::string_view function;
    std::string first = {}, second = {};  // of its arguments, cut
    HostError error{Errno::kOk, {}, {}};
    uint64_t bytes_in = 0, bytes_out = 0;
    bool may_have_no_line = false;
  };
  struct File {
    std::string path = {};
    bool writes = false, is_open = true, is_resized = false;
    HostError last_error{Errno::kOk, {}, {}};
    uint64_t bytes_in = 0, bytes_out = 0;
  };
  class Comparison;

  void note_on_file(std::string_view function, std::span<const std::string_view> arguments,
                    const HostError* error, uint64_t bytes_in);
  static bool did_something(const File& file) {
    return file.bytes_in != 0 || file.bytes_out != 0 || file.is_resized;
  }
  static CallRecord line_of(const Entry& entry);
  static CallRecord line_of(const File& file);

  std::vector<Entry> entries_;
  std::vector<File> files_;             // in the order in which they were opened
  std::map<uint64_t, size_t> handles_;  // of those that are open: their places there
  size_t text_bytes_ = 0;
  uint64_t not_kept_ = 0;
};

}  // namespace membrane::host
