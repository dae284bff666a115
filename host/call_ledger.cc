#include "host/call_ledger.h"

#include <algorithm>
#include <charconv>

#include "base/terminal.h"
#include "base/utf8.h"
#include "host/capabilities/all.h"

namespace membrane::host {
namespace {

constexpr size_t kMostArgumentBytes = 256;  // more than a line of the report shows
constexpr size_t kMostReasonBytes = 1000;

enum class Bytes : uint8_t { kSame, kAtLeast, kOther };
struct Row {
  std::string_view name, function, target;
  Bytes in, out;
};
constexpr Row kRows[] = {
#define LISTED_CALL(name, function, target, in, out) {name, function, target, Bytes::in, Bytes::out},
#include "host/call_ledger.def"
#undef LISTED_CALL
};

const Row* find_row(std::string_view name) {
  const auto* const found = std::ranges::find(kRows, name, &Row::name);
  return found == std::end(kRows) ? nullptr : found;
}

std::string cut(std::string_view text, size_t most_bytes = kMostArgumentBytes) {
  return utf8_repair(text.substr(0, utf8_cut(text, most_bytes)));
}

bool fits(Bytes rule, uint64_t listed, uint64_t known) {
  return rule == Bytes::kOther || (rule == Bytes::kSame ? listed == known : listed >= known);
}

// Whether a line's text begins with `target`. The text is cut after kShownBytes, also in the middle of what is asked for,
// and the target after kMostArgumentBytes.
bool begins_with(std::string_view text, std::string_view target) {
  constexpr std::string_view kCut = "…", kNext = ", ";
  constexpr size_t kShownBytes = 200, kLongestCharacter = 4;
  if (text == target) return true;
  if (text.ends_with(kCut) && text.size() > kShownBytes - kLongestCharacter) {
    text.remove_suffix(kCut.size());
    return target.starts_with(text) || text.starts_with(target);
  }
  const bool was_cut = target.size() > kMostArgumentBytes - kLongestCharacter;
  if (text.starts_with(target)) return was_cut || text.substr(target.size()).starts_with(kNext);
  return text.size() >= kShownBytes && target.starts_with(text);  // what comes after so much is not shown
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  return out;
}

// Both may have been cut, and repaired.
bool same_words(std::string_view one, std::string_view other) {
  constexpr size_t kCompared = 500;
  return cut(one, kCompared) == cut(other, kCompared);
}

// Nothing of it left the machine (as in dispatch.cc).
bool was_refused(const HostError& error) {
  return !error.acted && (error.code == Errno::kAccess || error.code == Errno::kBudget ||
                          error.code == Errno::kInvalid || error.code == Errno::kUnsupported);
}

bool is_of_file(std::string_view name) { return name == "fs.file_read" || name == "fs.file_written"; }

// A key or a file that is not there is an answer.
bool is_absence(std::string_view name, Errno code) {
  return (name == "kv.exists" && code == Errno::kNotFound) ||
         (name == "fs.exists" && (code == Errno::kNotFound || code == Errno::kNotDir));
}

// Whether the call can end so although its request succeeded: there was no room for the answer, what the capability makes of it
// is not there, or the capability itself failed. Any other error is the world's, and then the request had it. `bytes_in`: of
// the request's answer.
bool fails_after_success(const CallRecord& line, uint64_t bytes_in) {
  constexpr std::string_view kNoRows = "[]";
  if (line.code == Errno::kNoMemory) return true;
  if (line.code == Errno::kHost && line.reason.starts_with(kCapabilityFailed)) return true;
  if (line.name == "sql.value" || line.name == "sql.schema")
    return line.code == Errno::kTooBig || line.code == Errno::kHost ||
           (line.code == Errno::kNotFound && line.name == "sql.value" && bytes_in == kNoRows.size());
  return line.name == "ai.similarity" && line.code == Errno::kProtocol;
}

std::string told(const CallRecord& line) {
  return printable_line(cut(line.name)) + " of " + printable_line(cut(line.arguments));
}

}  // namespace

void CallLedger::begin() {
  entries_.clear();
  text_bytes_ = 0;
  not_kept_ = 0;
  std::vector<File> open;
  for (auto& [handle, place] : handles_) {
    open.push_back(std::move(files_[place]));
    place = open.size() - 1;
  }
  files_ = std::move(open);
}

void CallLedger::note_on_file(std::string_view function, std::span<const std::string_view> arguments,
                              const HostError* error, uint64_t bytes_in) {
  uint64_t handle = 0;
  std::from_chars(arguments[0].data(), arguments[0].data() + arguments[0].size(), handle);
  const auto found = handles_.find(handle);
  if (found == handles_.end()) return;  // one that is not open: nothing was done
  File& file = files_[found->second];
  if (function == "fs.close") {
    file.is_open = false;
    handles_.erase(found);
  } else if (error != nullptr) {
    file.last_error = *error;
  } else {
    file.bytes_in += bytes_in;
    if (function == "fs.write_at") file.bytes_out += arguments[2].size();
    file.is_resized = file.is_resized || function == "fs.resize";
  }
}

void CallLedger::note(std::string_view function, std::span<const std::string_view> arguments,
                      const HostError* error, uint64_t bytes_in, std::optional<uint64_t> handle) {
  const bool has_no_effect =
      function == "time.now_ns" || function == "random.bytes" || function == "fs.directories";
  if (has_no_effect) return;
  const bool is_on_file = function == "fs.read_at" || function == "fs.write_at" || function == "fs.resize" ||
                          function == "fs.status_of" || function == "fs.sync" || function == "fs.close";
  if (is_on_file) return note_on_file(function, arguments, error, bytes_in);
  Entry entry{.function = function};
  if (!arguments.empty()) entry.first = cut(arguments[0]);
  if (arguments.size() > 1) entry.second = cut(arguments[1]);
  if (error != nullptr)
    entry.error = {error->code, cut(error->reason, kMostReasonBytes), cut(error->grant, kMostReasonBytes),
                   error->acted};
  entry.bytes_in = bytes_in;
  // What of the arguments a program gave by itself: not the method, which has a function of its own, nor a number.
  const bool is_http = function == "http.request";
  const size_t end = is_http ? 3 : function == "ai.complete" ? 2 : arguments.size();
  for (size_t i = is_http ? 1 : 0; i < std::min(end, arguments.size()); ++i)
    entry.bytes_out += arguments[i].size();
  if (function == "fs.open" && error == nullptr && handle) {
    const bool makes = arguments[1].find_first_of("cxt") != std::string_view::npos;
    entry.may_have_no_line = !makes;
    handles_[*handle] = files_.size();
    files_.push_back({.path = entry.first, .writes = !arguments[1].empty()});
  }
  entry.may_have_no_line = entry.may_have_no_line || function == "time.now_ms";
  const size_t text = entry.first.size() + entry.second.size() + entry.error.reason.size();
  if (entries_.size() == kMostEntries || text_bytes_ + text > kMostTextBytes) {
    ++not_kept_;
    return;
  }
  text_bytes_ += text;
  entries_.push_back(std::move(entry));
}

// -- comparing -------------------------------------------------------------------------------------------------------

class CallLedger::Comparison {
 public:
  Comparison(const CallLedger& ledger, const List& list)
      : ledger_(ledger),
        list_(list),
        used_(ledger.entries_.size()),
        used_files_(ledger.files_.size()),
        spare_(ledger.not_kept_) {
    for (size_t i = 0; i < ledger.entries_.size(); ++i)
      queues_[ledger.entries_[i].function].places.push_back(i);
  }

  std::optional<std::string> run() {
    std::vector<const CallRecord*> failed;
    for (const CallRecord& line : list_.lines) {
      if (is_of_file(line.name)) {
        if (!find_file(line) && !list_.began_elsewhere) return "lists " + told(line) + ", which is not so";
        continue;
      }
      const Row* const row = find_row(line.name);
      if (row == nullptr) return "lists " + told(line) + ", which no program can call";
      const bool is_found = find_entry(line, *row);
      if (is_too_long()) return kTooLong;
      if (is_found) {
        if (is_out_of_order_) return "lists " + told(line) + " out of its order";
        continue;
      }
      const bool claims = line.code == Errno::kOk || line.code == Errno::kAccess;
      if (!claims) failed.push_back(&line);
      else if (spare_ > 0) --spare_;
      else return "lists " + told(line) + ", which was not asked for so";
    }
    uint64_t without_request = 0;
    for (const CallRecord* line : failed) {
      without_request += find_answered(*line, *find_row(line->name)) ? 0 : 1;
      if (is_too_long()) return kTooLong;
    }
    return find_left_out(without_request);
  }

 private:
  // A true list is nearly in the order of the requests, so looking for its lines takes little more than a look for each.
  // One that a worker made up could have each line compared with each request.
  static constexpr uint64_t kMostComparisons = 30'000'000;
  static constexpr const char* kTooLong = "lists calls in no order that a program makes them in";
  [[nodiscard]] bool is_too_long() const { return comparisons_ > kMostComparisons; }

  struct Queue {
    std::vector<size_t> places;
    size_t first = 0;  // those before it are used
  };

  template <typename Fits>
  std::optional<size_t> take(std::string_view function, Fits fits_line) {
    const auto found = queues_.find(function);
    if (found == queues_.end()) return std::nullopt;
    Queue& queue = found->second;
    while (queue.first < queue.places.size() && used_[queue.places[queue.first]]) ++queue.first;
    for (size_t i = queue.first; i < queue.places.size() && !is_too_long(); ++i) {
      ++comparisons_;
      const size_t place = queue.places[i];
      if (used_[place] || !fits_line(ledger_.entries_[place], i)) continue;
      used_[place] = true;
      return place;
    }
    return std::nullopt;
  }

  static bool has_target(const Entry& entry, const CallRecord& line, const Row& row) {
    if (row.target.empty()) return true;
    if (entry.function == "http.request") {
      if (line.name == "http.get" && entry.first != "GET") return false;
      if (line.name == "http.post" && entry.first != "POST") return false;
      if (row.target == "01")
        return begins_with(lower(line.arguments), lower(entry.first + ", " + entry.second));
    }
    if (line.name == "sql.schema" && entry.second != kSchemaQuery) return false;
    if (row.target == "01") return begins_with(line.arguments, entry.first + ", " + entry.second);
    return begins_with(line.arguments, row.target == "0" ? entry.first : entry.second);
  }

  // Of one request with the same end.
  static bool tells(const Entry& entry, const CallRecord& line, const Row& row) {
    if (!has_target(entry, line, row)) return false;
    if (line.code == Errno::kOk && is_absence(line.name, entry.error.code)) return true;
    if (line.code != entry.error.code) return false;
    if (line.code != Errno::kOk &&
        !(same_words(line.reason, entry.error.reason) && same_words(line.grant, entry.error.grant)))
      return false;
    const bool has_out = line.code == Errno::kOk || !was_refused(entry.error);
    if (has_out ? !fits(row.out, line.bytes_out, entry.bytes_out) : line.bytes_out != 0) return false;
    return line.code != Errno::kOk || fits(row.in, line.bytes_in, entry.bytes_in);
  }

  bool find_entry(const CallRecord& line, const Row& row) {
    if (line.name == "ai.similarity") return find_two(line, row);
    const auto place =
        take(row.function, [&](const Entry& entry, size_t) { return tells(entry, line, row); });
    if (!place) return false;
    if (line.code != Errno::kOk) return true;
    is_out_of_order_ = last_ && *place < *last_;
    last_ = place;
    return true;
  }

  // Two texts are embedded, unless the first is refused.
  bool find_two(const CallRecord& line, const Row& row) {
    const Entry* first = nullptr;
    const auto begins = [&](const Entry& entry, size_t) {
      if (!begins_with(line.arguments, entry.first)) return false;
      if (entry.error.code != Errno::kOk && entry.error.code != line.code) return false;
      first = &entry;
      return true;
    };
    if (!take(row.function, begins)) return false;
    if (first->error.code != Errno::kOk) return true;
    const std::string before = first->first + ", ";
    return take(row.function,
                [&](const Entry& entry, size_t) {
                  const bool ends_so =
                      entry.error.code == Errno::kOk
                          ? line.code == Errno::kOk || fails_after_success(line, entry.bytes_in)
                          : entry.error.code == line.code;
                  return ends_so && begins_with(line.arguments, before + entry.first);
                })
        .has_value();
  }

  // The request succeeded, and the call failed by itself afterwards: there was no room for the answer, or not what was
  // wanted in it. That it was made is told all the same, by what left with it.
  bool find_answered(const CallRecord& line, const Row& row) {
    return take(row.function,
                [&](const Entry& entry, size_t) {
                  return entry.error.code == Errno::kOk && fails_after_success(line, entry.bytes_in) &&
                         has_target(entry, line, row) && fits(row.out, line.bytes_out, entry.bytes_out);
                })
        .has_value();
  }

  bool find_file(const CallRecord& line) {
    for (size_t i = 0; i < used_files_.size(); ++i) {
      const File& file = ledger_.files_[i];
      const bool is_it =
          !used_files_[i] && file.path == cut(line.arguments) &&
          file.writes == (line.name == "fs.file_written") && file.last_error.code == line.code &&
          (list_.began_elsewhere ? line.bytes_in >= file.bytes_in && line.bytes_out >= file.bytes_out
                                 : line.bytes_in == file.bytes_in && line.bytes_out == file.bytes_out);
      if (!is_it) continue;
      used_files_[i] = true;
      return true;
    }
    return false;
  }

  [[nodiscard]] std::optional<std::string> find_left_out(uint64_t without_request) const {
    std::optional<CallRecord> first;
    uint64_t count = 0;
    const auto miss = [&](auto& of) {
      if (count++ == 0) first = line_of(of);
    };
    for (size_t i = 0; i < used_.size(); ++i)
      if (!used_[i] && !ledger_.entries_[i].may_have_no_line) miss(ledger_.entries_[i]);
    for (size_t i = 0; i < used_files_.size(); ++i) {
      const File& file = ledger_.files_[i];
      const bool did = did_something(file) || file.last_error.code != Errno::kOk;
      if (!used_files_[i] && did && !(list_.is_paused && file.is_open)) miss(file);
    }
    // A list that is full says how many more there were. What was never asked for must not have filled it.
    const bool has_no_room =
        list_.is_full && count <= list_.dropped && without_request <= Dispatcher::kMaxMalformedRecords;
    if (count == 0 || has_no_room) return std::nullopt;
    return "leaves out " + told(*first);
  }

  const CallLedger& ledger_;
  const List& list_;
  std::vector<bool> used_, used_files_;
  std::map<std::string_view, Queue> queues_;
  uint64_t spare_;  // requests that were only counted
  uint64_t comparisons_ = 0;
  std::optional<size_t> last_;
  bool is_out_of_order_ = false;
};

bool CallLedger::is_full(std::span<const CallRecord> lines) {
  constexpr size_t kLongestLine = 8u << 10;  // more than a line has
  size_t bytes = 0;
  for (const CallRecord& line : lines) bytes += line.text_bytes();
  return lines.size() >= Dispatcher::kMaxRecords || bytes + kLongestLine > Dispatcher::kMaxRecordBytes;
}

std::optional<std::string> CallLedger::difference(const List& list) const {
  return Comparison(*this, list).run();
}

CallRecord CallLedger::line_of(const Entry& entry) {
  std::string arguments = entry.first;
  if (!entry.second.empty()) arguments += (arguments.empty() ? "" : ", ") + entry.second;
  return {.name = std::string(entry.function),
          .code = entry.error.code,
          .reason = entry.error.reason,
          .grant = entry.error.grant,
          .arguments = std::move(arguments),
          .bytes_in = entry.bytes_in,
          .bytes_out = was_refused(entry.error) ? 0 : entry.bytes_out};
}

CallRecord CallLedger::line_of(const File& file) {
  return {.name = file.writes ? "fs.file_written" : "fs.file_read",
          .code = file.last_error.code,
          .reason = file.last_error.reason,
          .grant = file.last_error.grant,
          .arguments = file.path,
          .bytes_in = file.bytes_in,
          .bytes_out = file.bytes_out};
}

std::vector<CallRecord> CallLedger::lines() const {
  std::vector<CallRecord> lines;
  for (const Entry& entry : entries_) lines.push_back(line_of(entry));
  for (const File& file : files_)
    if (did_something(file)) lines.push_back(line_of(file));
  return lines;
}

}  // namespace membrane::host
