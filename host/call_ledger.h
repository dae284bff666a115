// Records a broker's requests and answers in the process that has the broker: enough to verify a list of host calls
// that another process made.
//
//   worker: capability, WASI ─▶ CallRecord, a line of the report       its word
//   supervisor: BrokerGate ─▶ CallLedger                               what happened
//   CallLedger::difference(lines): nothing, or what does not fit
//
// A line may cover several requests (a file read in pieces), and a request may have no line (a clock, a file
// reopened after a fork); call_ledger.def relates lines and requests. Every effect has its line, and every line that
// claims an effect, a refusal or data has its request, with the same target as far as a line shows it, error number,
// reason, grant and bytes, in the same order.
//
// Bounded: after kMostEntries or kMostTextBytes, requests are only counted, by kind and result.
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

  // A run or a turn begins: everything is dropped except for open files.
  void begin();

  // Records a request that was answered. `error`: null when it succeeded; `bytes_in`: of the answer's content;
  // `handle`: of the file that it opened. `function` must live as long as the process.
  void note(std::string_view function, std::span<const std::string_view> arguments, const HostError* error,
            uint64_t bytes_in, std::optional<uint64_t> handle);

  // The same, for a query that did more than its program could pay for. The program has no line for it: either it
  // repeats the query next, and this entry is dropped, or it has ended or is paused here.
  void note_short(std::string_view function, std::span<const std::string_view> arguments,
                  const HostError& error);
  void drop_what_fell_short() { short_.reset(); }

  struct List {
    std::span<const CallRecord> lines;
    std::span<const CallRecord> before = {};  // lines of the same list, for calls that are not in this ledger
    uint64_t dropped = 0;                     // further calls, which the list had no room for
    bool is_paused = false;                   // the program will be resumed: open files have no line yet
    bool may_end_short =
        false;  // it is paused, or had no fuel or no time left: the last query that fell short is not repeated
    bool has_past =
        false;  // for turns that are not in this ledger: files that they opened are reopened silently
    bool began_elsewhere = false;  // the run or turn itself, and files were open when it was frozen
    // Whether the policy grants a file: nothing else is known here of a file that was open then. Null: no file.
    std::function<bool(std::string_view path, bool writes)> may_have_been_open = nullptr;
  };

  // The first mismatch, as the end of a sentence: "leaves out http.request of GET, https://…".
  [[nodiscard]] std::optional<std::string> difference(const List& list) const;

  // The recorded requests, in the broker's own form: a line for each request, and one for each file that was read or
  // written.
  [[nodiscard]] std::vector<CallRecord> lines() const;
  [[nodiscard]] uint64_t not_kept() const { return not_kept_; }
  [[nodiscard]] bool has_open_files() const { return !handles_.empty(); }
  // No request was made that a list could show.
  [[nodiscard]] bool is_empty() const {
    return entries_.empty() && files_.empty() && not_kept_ == 0 && !short_;
  }

 private:
  struct Entry {
    // For http.request: headers in addition to those that a capability adds.
    enum class Headers : uint8_t { kNone, kContentType, kOther };

    std::string_view function;
    std::vector<std::string> arguments = {};  // as far as a line shows them
    Headers headers = Headers::kNone;
    HostError error{Errno::kOk, {}, {}};  // bounded as by a dispatcher
    uint64_t bytes_in = 0, bytes_out = 0;
    // Whether the list must have it. kUnlessOpenedBefore: unless the file is being reopened.
    enum class Line : uint8_t { kAlways, kSometimes, kUnlessOpenedBefore } line = Line::kAlways;
  };
  // Requests of one function with the same result, which were only counted.
  struct Counted {
    uint64_t all = 0, have_lines = 0;  // all, and those that must have a line
  };
  using Counts = std::map<std::pair<std::string_view, Errno>, Counted>;
  struct File {
    std::string path = {};
    bool writes = false, is_open = true, is_resized = false;
    uint64_t closed_after = 0;  // number of requests before it, without those that close files
    HostError last_error{Errno::kOk, {}, {}};
    uint64_t bytes_in = 0, bytes_out = 0;
  };
  class Comparison;

  void add(Entry entry);
  [[nodiscard]] bool has_room_for(size_t text_bytes);
  // Another request followed: it counts like any other request.
  void add_what_fell_short();
  static Entry entry_of(std::string_view function, std::span<const std::string_view> arguments,
                        const HostError* error);
  void note_on_file(std::string_view function, std::span<const std::string_view> arguments,
                    const HostError* error, uint64_t bytes_in);
  // Or it was closed, and nothing followed: this is how a frozen run ends.
  [[nodiscard]] bool may_be_open(const File& file) const {
    return file.is_open || file.closed_after == requests_;
  }
  static bool did_something(const File& file) {
    return file.bytes_in != 0 || file.bytes_out != 0 || file.is_resized;
  }
  static CallRecord line_of(const Entry& entry);
  static CallRecord line_of(const File& file);

  std::vector<Entry> entries_;
  std::vector<File> files_;                           // in the order of opening
  std::map<uint64_t, size_t> handles_;                // for open files: their indices there
  std::set<std::string, std::less<>> opened_before_;  // paths of files, from earlier turns
  size_t before_bytes_ = 0;                           // size of these
  bool opened_too_many_ = false;                      // too many for opened_before_
  size_t text_bytes_ = 0;
  bool is_full_ = false;
  uint64_t requests_ = 0;  // without those that close a file
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  uint64_t not_kept_ = 0;
  Counts counts_;  // of requests beyond the bounds
  uint64_t files_not_kept_ = 0;
  std::optional<Entry> short_;  // the last request, if it fell short
};

}  // namespace membrane::host
