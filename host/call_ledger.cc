#include "host/call_ledger.h"

#include <algorithm>
#include <charconv>
#include <initializer_list>

#include "base/terminal.h"
#include "base/utf8.h"
#include "host/capabilities/all.h"
#include "host/files/file_handles.h"

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

// After its request had succeeded, by itself: there was no room for the answer, or not what was wanted in it.
bool can_fail_afterwards(std::string_view name, Errno code) {
  const auto is_one_of = [&](std::initializer_list<std::string_view> names) {
    return std::ranges::find(names, name) != names.end();
  };
  switch (code) {
    case Errno::kNoMemory:
      return name.starts_with("http.") || name.starts_with("ai.") || name.starts_with("sql.") ||
             is_one_of({"kv.get", "kv.keys", "fs.read", "fs.list", "agent.ask"});
    case Errno::kHost:
      return is_one_of({"http.exchange", "http.get_many", "sql.value", "sql.schema", "kv.keys", "fs.list",
                        "ai.embed", "ai.similarity"});
    case Errno::kTooBig: return is_one_of({"sql.value", "sql.schema"});
    case Errno::kNotFound: return name == "sql.value";
    case Errno::kProtocol: return name == "ai.similarity";
    default: return false;
  }
}

bool is_malformed(Errno code) { return code == Errno::kFault || code == Errno::kInvalid; }

// Without any request: its arguments were malformed, or there was no room to make it. It is as short as a dispatcher makes
// such a line.
bool can_fail_before(const CallRecord& line) {
  // Three times what was cut of the arguments, where none of it was UTF-8.
  constexpr size_t kMostSummaryBytes = 3 * 200 + 3, kMostBytesOfReason = kMostReasonBytes + 20;
  const bool is_http = line.name.starts_with("http.");
  const bool can_be = is_malformed(line.code) || line.code == Errno::kNoMemory ||
                      (is_http && (line.code == Errno::kTooBig || line.code == Errno::kHost));
  return can_be && line.grant.empty() && line.bytes_in == 0 &&
         (line.code != Errno::kInvalid || line.bytes_out == 0) && line.reason.size() <= kMostBytesOfReason &&
         line.arguments.size() <= kMostSummaryBytes;
}

bool is_of_file(std::string_view name) { return name == "fs.file_read" || name == "fs.file_written"; }

// A key or a file that is not there is an answer.
bool is_absence(std::string_view name, Errno code) {
  return (name == "kv.exists" && code == Errno::kNotFound) ||
         (name == "fs.exists" && (code == Errno::kNotFound || code == Errno::kNotDir));
}

std::string told(const CallRecord& line) {
  return printable_line(cut(line.name)) + " of " + printable_line(cut(line.arguments));
}

}  // namespace

void CallLedger::begin() {
  for (const File& file : files_) {
    if (opened_before_.size() < kMostEntries) opened_before_.insert(file.path);
    else opened_too_many_ = true;
  }
  opened_too_many_ = opened_too_many_ || files_not_kept_ != 0;
  entries_.clear();
  text_bytes_ = 0;
  not_kept_ = files_not_kept_ = 0;
  counts_.clear();
  short_.reset();
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
  Entry entry = entry_of(function, arguments, error);
  entry.bytes_in = bytes_in;
  if (function == "fs.open" && error == nullptr && handle) {
    const bool makes = arguments[1].find_first_of("cxt") != std::string_view::npos;
    if (!makes) entry.line = Entry::Line::kUnlessOpenedBefore;
    if (files_.size() < kMostEntries) {
      handles_[*handle] = files_.size();
      files_.push_back({.path = entry.first, .writes = !arguments[1].empty()});
    } else {
      ++files_not_kept_;
    }
  }
  if (function == "time.now_ms") entry.line = Entry::Line::kSometimes;
  add_what_fell_short();
  add(std::move(entry));
}

CallLedger::Entry CallLedger::entry_of(std::string_view function, std::span<const std::string_view> arguments,
                                       const HostError* error) {
  Entry entry{.function = function};
  if (!arguments.empty()) entry.first = cut(arguments[0]);
  if (arguments.size() > 1) entry.second = cut(arguments[1]);
  if (error != nullptr)
    entry.error = {error->code, cut(error->reason, kMostReasonBytes), cut(error->grant, kMostReasonBytes),
                   error->acted};
  // What of the arguments a program gave by itself: not the method, which has a function of its own, nor a number.
  const bool is_http = function == "http.request";
  const size_t end = is_http ? 3 : function == "ai.complete" ? 2 : arguments.size();
  for (size_t i = is_http ? 1 : 0; i < std::min(end, arguments.size()); ++i)
    entry.bytes_out += arguments[i].size();
  return entry;
}

void CallLedger::add(Entry entry) {
  const size_t text = entry.first.size() + entry.second.size() + entry.error.reason.size();
  if (entries_.size() == kMostEntries || text_bytes_ + text > kMostTextBytes) {
    ++not_kept_;
    Counted& counted = counts_[{entry.function, entry.error.code}];
    ++counted.all;
    if (entry.line == Entry::Line::kAlways) ++counted.have_lines;
    return;
  }
  text_bytes_ += text;
  entries_.push_back(std::move(entry));
}

void CallLedger::note_short(std::string_view function, std::span<const std::string_view> arguments,
                            const HostError& error) {
  add_what_fell_short();
  short_ = entry_of(function, arguments, &error);
}

void CallLedger::add_what_fell_short() {
  if (short_) add(*std::exchange(short_, std::nullopt));
}

// -- comparing -------------------------------------------------------------------------------------------------------

class CallLedger::Comparison {
 public:
  Comparison(const CallLedger& ledger, const List& list)
      : ledger_(ledger),
        list_(list),
        used_(ledger.entries_.size()),
        used_files_(ledger.files_.size()),
        counts_(ledger.counts_),
        files_left_(ledger.files_not_kept_) {
    for (size_t i = 0; i < ledger.entries_.size(); ++i)
      queues_[ledger.entries_[i].function].places.push_back(i);
    for (const CallRecord& line : list.before) note_place(std::nullopt, line);
  }

  std::optional<std::string> run() {
    std::vector<const CallRecord*> failed;
    for (const CallRecord& line : list_.lines) {
      if (is_of_file(line.name)) {
        const bool is_found = find_file(line);
        if (is_too_long()) return kTooLong;
        if (!is_found) return "lists " + told(line) + ", which is not so";
        note_place(std::nullopt, line);
        continue;
      }
      const Row* const row = find_row(line.name);
      if (row == nullptr) return "lists " + told(line) + ", which no program can call";
      const auto place = find_entry(line, *row);
      if (is_too_long()) return kTooLong;
      if (is_out_of_order_) return "lists " + told(line) + " out of its order";
      if (place || find_counted(line, *row)) {
        note_place(place, line);
        continue;
      }
      if (line.code == Errno::kOk || line.code == Errno::kAccess)
        return "lists " + told(line) + ", which was not asked for so";
      failed.push_back(&line);
    }
    for (const CallRecord* line : failed) {
      const auto place = find_answered(*line, *find_row(line->name));
      if (is_too_long()) return kTooLong;
      note_place(place, *line);
      if (place) continue;
      if (!can_fail_before(*line)) return "lists " + told(*line) + ", which was not asked for so";
      ++without_request_;
    }
    if (malformed_ > Dispatcher::kMaxMalformedRecords)
      return "lists more calls with malformed arguments than a list has";
    return find_left_out();
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

  std::optional<size_t> find_entry(const CallRecord& line, const Row& row) {
    if (line.name == "ai.similarity") return find_two(line, row);
    const auto place =
        take(row.function, [&](const Entry& entry, size_t) { return tells(entry, line, row); });
    if (!place || line.code != Errno::kOk) return place;
    is_out_of_order_ = last_ && *place < *last_;
    last_ = place;
    return place;
  }

  // Of requests that were only counted.
  bool find_counted(const CallRecord& line, const Row& row) {
    const auto take_one = [&](Errno code) {
      const auto found = counts_.find({row.function, code});
      if (found == counts_.end() || found->second.all == 0) return false;
      --found->second.all;
      if (found->second.have_lines > 0) --found->second.have_lines;
      return true;
    };
    if (take_one(line.code)) return true;
    for (const Errno absent : {Errno::kNotFound, Errno::kNotDir})
      if (line.code == Errno::kOk && is_absence(line.name, absent) && take_one(absent)) return true;
    return can_fail_afterwards(line.name, line.code) && take_one(Errno::kOk);
  }

  // Two texts are embedded, unless the first is refused.
  std::optional<size_t> find_two(const CallRecord& line, const Row& row) {
    const bool can_follow = line.code == Errno::kOk || can_fail_afterwards(line.name, line.code);
    const Entry* first = nullptr;
    const auto begins = [&](const Entry& entry, size_t) {
      if (!begins_with(line.arguments, entry.first)) return false;
      if (entry.error.code != Errno::kOk && entry.error.code != line.code) return false;
      first = &entry;
      return true;
    };
    const auto place = take(row.function, begins);
    if (!place || first->error.code != Errno::kOk) return place;
    const std::string before = first->first + ", ";
    return take(row.function, [&](const Entry& entry, size_t) {
      return begins_with(line.arguments, before + entry.first) &&
             (entry.error.code == Errno::kOk ? can_follow : entry.error.code == line.code);
    });
  }

  // The request succeeded, and the call failed by itself afterwards. That it was made is told all the same, by what left
  // with it.
  std::optional<size_t> find_answered(const CallRecord& line, const Row& row) {
    if (!can_fail_afterwards(line.name, line.code)) return std::nullopt;
    constexpr std::string_view kNoRows = "[]";
    return take(row.function, [&](const Entry& entry, size_t) {
      if (line.code == Errno::kNotFound && entry.bytes_in != kNoRows.size()) return false;
      return entry.error.code == Errno::kOk && has_target(entry, line, row) &&
             fits(row.out, line.bytes_out, entry.bytes_out);
    });
  }

  bool find_file(const CallRecord& line) {
    while (first_file_ < used_files_.size() && used_files_[first_file_]) ++first_file_;
    for (size_t i = first_file_; i < used_files_.size() && !is_too_long(); ++i) {
      ++comparisons_;
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
    if (files_left_ > 0) return --files_left_, true;
    return may_be_of_file_before(line);
  }

  // Used before the program was frozen, and not since: it is told of when it is closed, with what was read and written then.
  bool may_be_of_file_before(const CallRecord& line) {
    const bool writes = line.name == "fs.file_written";
    return list_.began_elsewhere && line.code == Errno::kOk && line.reason.empty() && line.grant.empty() &&
           (line.bytes_in != 0 || line.bytes_out != 0) && (writes || line.bytes_out == 0) &&
           files_before_++ < FileHandles::kMostOpen && list_.may_have_been_open &&
           list_.may_have_been_open(line.arguments, writes);
  }

  [[nodiscard]] bool must_have_line(const Entry& entry) const {
    using enum Entry::Line;
    const bool was_opened =
        list_.has_past || ledger_.opened_too_many_ || ledger_.opened_before_.contains(entry.first);
    return entry.line == kAlways || (entry.line == kUnlessOpenedBefore && !was_opened);
  }

  [[nodiscard]] std::optional<std::string> find_left_out() const {
    std::optional<CallRecord> first;
    std::optional<size_t> first_place;
    bool needs_room = false;
    uint64_t count = 0;
    const auto miss = [&](const auto& of) {
      if (count++ == 0) first = line_of(of);
    };
    for (size_t i = 0; i < used_.size(); ++i) {
      const Entry& entry = ledger_.entries_[i];
      if (used_[i] || !must_have_line(entry)) continue;
      miss(entry);
      // Of malformed ones a list has no more than so many, however much room there is.
      const bool may_have_been_one_too_many =
          is_malformed(entry.error.code) && malformed_ == Dispatcher::kMaxMalformedRecords;
      if (!may_have_been_one_too_many && !first_place) first_place = i;
      needs_room = needs_room || !may_have_been_one_too_many;
    }
    for (size_t i = 0; i < used_files_.size(); ++i) {
      const File& file = ledger_.files_[i];
      const bool did = did_something(file) || file.last_error.code != Errno::kOk;
      if (used_files_[i] || !did || (list_.is_paused && file.is_open)) continue;
      miss(file);
      needs_room = true;
    }
    if (ledger_.short_ && !list_.may_end_short) return "leaves out " + told(line_of(*ledger_.short_));
    for (const auto& [kind, counted] : counts_) {
      if (counted.have_lines != 0 && !first)
        first = CallRecord{.name = std::string(kind.first), .arguments = "what was only counted"};
      count += counted.have_lines;
      needs_room = needs_room || counted.have_lines != 0;
    }
    if (!list_.is_paused && files_left_ != 0) {
      count += files_left_;
      needs_room = true;
    }
    if (count == 0) return std::nullopt;
    if (!first) first = CallRecord{.name = "fs.open", .arguments = "what was only counted"};
    // A list that is full says how many more there were. What was never asked for must not have filled it.
    const bool is_filled_by_what_was_asked = without_request_ <= Dispatcher::kMaxMalformedRecords;
    const bool may_be = !needs_room || (is_filled_by_what_was_asked && had_no_room(first_place));
    if (count <= list_.dropped && may_be) return std::nullopt;
    return "leaves out " + told(*first);
  }

  // -- room
  // Whether a list may have had no room for a line more when the request at `place` came; without one: at its end. Where a
  // line stood that has no request is not known.
  [[nodiscard]] bool had_no_room(std::optional<size_t> place) const {
    constexpr size_t kLongestLine = 8u << 10;  // more than a line has
    constexpr size_t kTogether = 64;           // lines of one call may change places
    size_t lines = 0, bytes = 0;
    for (const auto& [at, size] : listed_) {
      if (place && at && *at > *place + kTogether) continue;
      ++lines;
      bytes += size;
    }
    return lines >= Dispatcher::kMaxRecords || bytes + kLongestLine > Dispatcher::kMaxRecordBytes;
  }
  void note_place(std::optional<size_t> place, const CallRecord& line) {
    malformed_ += is_malformed(line.code) ? 1 : 0;
    listed_.emplace_back(place, line.text_bytes());
  }

  const CallLedger& ledger_;
  const List& list_;
  std::vector<bool> used_, used_files_;
  std::map<std::string_view, Queue> queues_;
  Counts counts_;        // those that no line was found for
  uint64_t files_left_;  // the same, of files
  uint64_t files_before_ = 0;
  size_t first_file_ = 0;                         // of used_files_ that is not used
  uint64_t malformed_ = 0, without_request_ = 0;  // lines
  std::vector<std::pair<std::optional<size_t>, size_t>>
      listed_;  // each line's request, and the bytes of its text
  uint64_t comparisons_ = 0;
  std::optional<size_t> last_;
  bool is_out_of_order_ = false;
};

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
  if (short_) lines.push_back(line_of(*short_));
  for (const File& file : files_)
    if (did_something(file)) lines.push_back(line_of(file));
  return lines;
}

}  // namespace membrane::host
