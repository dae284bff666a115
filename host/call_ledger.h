// What a broker was asked for and answered, kept by whoever holds the broker: enough to tell whether a list of host calls
// that somebody else made of it is true.
//
//   worker: capability, WASI ─▶ CallRecord, a line of the report       its word
//   supervisor: BrokerGate ─▶ CallLedger                               what happened
//   CallLedger::difference(lines): nothing, or what does not fit
//
// A line may be of several requests (a file that is read in pieces), and a request may have no line (a clock, a file that
// is opened again after a fork); call_ledger.def says which line belongs to which request. Every effect has its line, and
// every line that claims an effect, a refusal or data has its request, with the same target as far as a line shows it, error
// number, reason, grant and bytes, in the same order.
//
// Bounded: once there are kMostEntries or kMostTextBytes, requests are only counted, by what they were and how they ended.
//
// Threads: one at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
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

  // The same, of a query that did more than its program could pay for. The program has no line for it: either it makes
  // the query again next, and this is forgotten, or it has ended or is paused here.
  void note_short(std::string_view function, std::span<const std::string_view> arguments,
                  const HostError& error);
  void drop_what_fell_short() { short_.reset(); }

  struct List {
    std::span<const CallRecord> lines;
    std::span<const CallRecord> before = {};  // lines of the same list, of calls that are not in this ledger
    uint64_t dropped = 0;                     // more calls, which the list had no room for
    bool is_paused = false;  // the program goes on later: files that are open have no line yet
    bool may_end_short =
        false;  // it is paused, or had no fuel or no time left: what fell short last is not made again
    bool has_past =
        false;  // of turns that are not in this ledger: files that it opened then it opens again silently
    bool began_elsewhere = false;  // the run or the turn itself, and files were open when it was frozen
    // Whether the policy grants a file: of one that was open then, no more is known here. Null: it grants none.
    std::function<bool(std::string_view path, bool writes)> may_have_been_open = nullptr;
  };

  // The first thing that does not fit, as the end of a sentence: "leaves out http.request of GET, https://…".
  [[nodiscard]] std::optional<std::string> difference(const List& list) const;

  // What was noted, in the broker's own words: a line for each request, and one for each file that was read or written.
  [[nodiscard]] std::vector<CallRecord> lines() const;
  [[nodiscard]] uint64_t not_kept() const { return not_kept_; }
  [[nodiscard]] bool has_open_files() const { return !handles_.empty(); }
  // Nothing was asked for that a list could tell of.
  [[nodiscard]] bool is_empty() const {
    return entries_.empty() && files_.empty() && not_kept_ == 0 && !short_;
  }

 private:
  struct Entry {
    // Besides those that a capability makes of its arguments; of http.request.
    enum class Headers : uint8_t { kNone, kContentType, kOther };

    std::string_view function;
    std::vector<std::string> arguments = {};  // as far as a line shows them
    Headers headers = Headers::kNone;
    HostError error{Errno::kOk, {}, {}};  // as a dispatcher bounds it
    uint64_t bytes_in = 0, bytes_out = 0;
    // Whether the list must have it. kUnlessOpenedBefore: not where a file is opened again.
    enum class Line : uint8_t { kAlways, kSometimes, kUnlessOpenedBefore } line = Line::kAlways;
  };
  // Requests of one function that ended alike, and were only counted.
  struct Counted {
    uint64_t all = 0, have_lines = 0;  // all, and those that must have one
  };
  using Counts = std::map<std::pair<std::string_view, Errno>, Counted>;
  struct File {
    std::string path = {};
    bool writes = false, is_open = true, is_resized = false;
    uint64_t closed_after = 0;  // requests, of those that close none
    HostError last_error{Errno::kOk, {}, {}};
    uint64_t bytes_in = 0, bytes_out = 0;
  };
  class Comparison;

  void add(Entry entry);
  [[nodiscard]] bool has_room_for(size_t text_bytes);
  // Something else came after it: it is a request as any other.
  void add_what_fell_short();
  static Entry entry_of(std::string_view function, std::span<const std::string_view> arguments,
                        const HostError* error);
  void note_on_file(std::string_view function, std::span<const std::string_view> arguments,
                    const HostError* error, uint64_t bytes_in);
  // Or it was closed, and nothing came after that: so ends a run that is frozen.
  [[nodiscard]] bool may_be_open(const File& file) const {
    return file.is_open || file.closed_after == requests_;
  }
  static bool did_something(const File& file) {
    return file.bytes_in != 0 || file.bytes_out != 0 || file.is_resized;
  }
  static CallRecord line_of(const Entry& entry);
  static CallRecord line_of(const File& file);

  std::vector<Entry> entries_;
  std::vector<File> files_;                           // in the order in which they were opened
  std::map<uint64_t, size_t> handles_;                // of those that are open: their places there
  std::set<std::string, std::less<>> opened_before_;  // paths of files, in turns that are over
  size_t before_bytes_ = 0;                           // of them
  bool opened_too_many_ = false;                      // for opened_before_
  size_t text_bytes_ = 0;
  bool is_full_ = false;
  uint64_t requests_ = 0;  // that close no file
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  uint64_t not_kept_ = 0;
  Counts counts_;  // of those
  uint64_t files_not_kept_ = 0;
  std::optional<Entry> short_;  // the last one, which fell short
};

}  // namespace membrane::host
