#include "host/gate/call_ledger.h"

#include <algorithm>
#include <charconv>
#include <initializer_list>

#include "base/terminal.h"
#include "base/utf8.h"
#include "host/calls/registry.h"
#include "host/capabilities/all.h"
#include "host/files/file_handles.h"
#include "policy/credentials.h"

namespace membrane::host {
namespace {

constexpr size_t kShownBytes =
    kMaxSummaryBytes + 1;                // per argument: the last byte tells whether there is more
constexpr size_t kMostPathBytes = 8192;  // for a path that WASI shows; it makes none that is longer
// The longest repaired form of text that is not UTF-8 at all, including the mark of a cut.
constexpr size_t longest_when_repaired(size_t bytes) { return 3 * bytes + 3; }

enum class Bytes : uint8_t { kSame, kAtLeast, kNone, kOther };
struct Row {
  std::string_view name, function, target;
  Bytes in, out;

  [[nodiscard]] bool shows_all() const { return target.starts_with('='); }
  [[nodiscard]] bool shows_more() const { return target.ends_with('+'); }
};
constexpr Row kRows[] = {
#define LISTED_CALL(name, function, target, in, out) {name, function, target, Bytes::in, Bytes::out},
#include "host/gate/call_ledger.def"
#undef LISTED_CALL
};

// The forms that lines of this name can have: a capability's summary of its arguments, WASI's, or both. The broker's
// function is the same.
struct Forms {
  const Row* first = nullptr;
  const Row* second = nullptr;
};
Forms forms_of(std::string_view name) {
  Forms forms;
  for (const Row& row : kRows)
    if (row.name == name) (forms.first == nullptr ? forms.first : forms.second) = &row;
  return forms;
}

// The index of the path that WASI shows in full.
std::optional<size_t> place_of_whole(std::string_view function) {
  for (const Row& row : kRows)
    if (row.function == function && row.shows_all()) return static_cast<size_t>(row.target[1] - '0');
  return std::nullopt;
}

std::string cut(std::string_view text) {
  return utf8_repair(text.substr(0, utf8_cut(text, kMaxSummaryBytes)));
}

bool fits(Bytes rule, uint64_t listed, uint64_t known) {
  switch (rule) {
    case Bytes::kSame: return listed == known;
    case Bytes::kAtLeast: return listed >= known;
    case Bytes::kNone: return listed == 0;
    case Bytes::kOther: return true;
  }
  return false;
}

// A program may write a method in lower case; other arguments reach the broker unchanged.
std::string with_method_in_capitals(std::string_view text, size_t method_bytes) {
  std::string out(text);
  for (size_t i = 0; i < std::min(method_bytes, out.size()); ++i)
    if (out[i] >= 'a' && out[i] <= 'z') out[i] = static_cast<char>(out[i] - 32);
  return out;
}

// Whether a dispatcher could show a call with these arguments so (dispatch.cc). `has_more`: unknown arguments
// follow. `is_joined_whole`: they are joined before they are cut.
bool is_summary(std::string_view text, std::span<const std::string> arguments, bool has_more,
                bool is_joined_whole) {
  std::string summary;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!is_joined_whole && summary.size() >= kMaxSummaryBytes) break;
    if (i != 0) summary += ", ";
    summary += arguments[i];
  }
  if (!has_more || summary.size() >= kMaxSummaryBytes) return text == bounded_summary(std::move(summary));
  summary += ", ";
  if (summary.size() > kMaxSummaryBytes) return text == bounded_summary(std::move(summary));
  return text.starts_with(utf8_repair(summary));
}

// After its request succeeded, the call itself failed: there was no room for the answer, or the answer had no
// matching value.
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

// Whether calls of this name can fail so without any request: malformed arguments, or no room.
bool can_end_before(std::string_view name, Errno code) {
  return is_malformed(code) || code == Errno::kNoMemory ||
         (name.starts_with("http.") && (code == Errno::kTooBig || code == Errno::kHost));
}

// Reasons of the http handlers for malformed arguments (capabilities/http.cc).
bool is_reason_of_http(std::string_view reason) {
  constexpr std::string_view kBeginnings[] = {
      "the content type has ",  "the headers are ", "'",          "the value of the header ",
      "the method is ",         "the text of the ", "a request ", "the requests are ",
      "the body of a request ",
  };
  return std::ranges::any_of(kBeginnings, [&](std::string_view one) { return reason.starts_with(one); });
}

// Reasons of calls that end without any request, as far as they can be known: they quote the program's data.
bool is_reason_before(const CallRecord& line) {
  const std::string_view name = line.name, reason = line.reason;
  const size_t dot = name.find('.');
  const FunctionSpec* const function =
      dot == std::string_view::npos ? nullptr : find_function(name.substr(0, dot), name.substr(dot + 1));
  if (function == nullptr) return false;
  const auto is_of_parameter = [&](char next) {
    return std::ranges::any_of(function->params, [&](const Param& param) {
      return reason.starts_with(param.name) && reason.substr(param.name.size()).starts_with(next);
    });
  };
  switch (line.code) {
    case Errno::kFault: return is_of_parameter(':');
    case Errno::kInvalid:
      return is_of_parameter(' ') || reason.starts_with(signature_of(*function) + " takes ") ||
             reason == "the arguments are not an array" ||
             (name.starts_with("http.") && is_reason_of_http(reason));
    case Errno::kNoMemory: return reason == kNoMemoryForCall;
    case Errno::kTooBig:
      return reason.starts_with("the text of the ") || reason.starts_with("there are more than ");
    case Errno::kHost: return reason.starts_with(kCapabilityFailed);
    default: return false;
  }
}

bool can_fail_before(const CallRecord& line) {
  const bool has_no_bytes_out =
      line.code == Errno::kInvalid || line.code == Errno::kFault ? line.bytes_out == 0 : true;
  return can_end_before(line.name, line.code) && line.grant.empty() && line.bytes_in == 0 &&
         has_no_bytes_out && (line.code != Errno::kFault || line.arguments.empty()) && is_reason_before(line);
}

bool is_of_file(std::string_view name) { return name == "fs.file_read" || name == "fs.file_written"; }

// A missing key or file is an answer.
bool is_absence(std::string_view name, Errno code) {
  return (name == "kv.exists" && code == Errno::kNotFound) ||
         (name == "fs.exists" && (code == Errno::kNotFound || code == Errno::kNotDir));
}

// No line of a dispatcher or of WASI exceeds these sizes and numbers, or has a reason for a success.
bool is_as_made(const CallRecord& line, const Row* row, uint64_t most_latency_us) {
  constexpr uint64_t kMostBytes = uint64_t{kMaxParams} << 32;  // of strings in a memory
  constexpr size_t kMostReason = longest_when_repaired(kMaxReasonBytes);
  const bool shows_path = row == nullptr || row->shows_all() || line.name == "fs.list";
  const size_t most_arguments = shows_path ? kMostPathBytes : longest_when_repaired(kMaxSummaryBytes);
  const bool are_bytes_sound =
      row == nullptr || (line.bytes_in <= kMostBytes && line.bytes_out <= kMostBytes);
  return line.arguments.size() <= most_arguments && line.reason.size() <= kMostReason &&
         line.grant.size() <= kMostReason && are_bytes_sound && line.latency_us <= most_latency_us &&
         (line.code != Errno::kOk || (line.reason.empty() && line.grant.empty()));
}

std::string described(const CallRecord& line) {
  return printable_line(cut(line.name)) + " of " + printable_line(cut(line.arguments));
}

}  // namespace

static HostError bounded_error(const HostError& error) {
  return {error.code, bounded_reason(error.reason), bounded_reason(error.grant), error.acted,
          error.is_unsent};
}

void CallLedger::begin() {
  for (const File& file : files_) {
    if (opened_before_.size() < kMostEntries && before_bytes_ + file.path.size() <= kMostTextBytes)
      before_bytes_ += opened_before_.insert(file.path).second ? file.path.size() : 0;
    else opened_too_many_ = true;
  }
  opened_too_many_ = opened_too_many_ || files_not_kept_ != 0;
  entries_.clear();
  text_bytes_ = 0;
  is_full_ = false;
  begun_ = std::chrono::steady_clock::now();
  not_kept_ = files_not_kept_ = 0;
  counts_.clear();
  short_.reset();
  std::vector<File> open;
  for (auto& [handle, place] : handles_) {
    text_bytes_ += files_[place].path.size();
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
  if (found == handles_.end()) return;  // it was not open: nothing was done
  File& file = files_[found->second];
  if (function == "fs.close") {
    file.is_open = false;
    file.closed_after = requests_;
    handles_.erase(found);
  } else if (error != nullptr) {
    file.last_error = bounded_error(*error);
  } else {
    file.bytes_in += bytes_in;
    if (function == "fs.write_at") file.bytes_out += arguments[2].size();
    file.is_resized = file.is_resized || function == "fs.resize";
  }
}

void CallLedger::note(std::string_view function, std::span<const std::string_view> arguments,
                      const HostError* error, uint64_t bytes_in, std::optional<uint64_t> handle) {
  requests_ += function == "fs.close" ? 0 : 1;
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
    if (files_.size() < kMostEntries && has_room_for(entry.arguments[0].size())) {
      handles_[*handle] = files_.size();
      files_.push_back({.path = entry.arguments[0], .writes = !arguments[1].empty()});
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
  const bool is_http = function == "http.request";
  const auto whole = place_of_whole(function);
  size_t shown = 0;
  for (size_t i = 0; i < std::min<size_t>(arguments.size(), is_http ? 2 : 3); ++i) {
    if (i == 2 && shown >= kMaxSummaryBytes) break;
    const std::string shown_url =
        is_http && i == 1 ? policy::without_credentials(arguments[i]) : std::string();
    const std::string_view text = is_http && i == 1 ? std::string_view(shown_url) : arguments[i];
    entry.arguments.emplace_back(text.substr(0, whole == i ? kMostPathBytes : kShownBytes));
    shown += entry.arguments.back().size();
  }
  if (is_http && arguments.size() > 3) {
    const bool is_content_type = arguments.size() == 5 && arguments[3] == "Content-Type";
    entry.headers = is_content_type ? Entry::Headers::kContentType : Entry::Headers::kOther;
    for (const size_t i : {4, 2}) {
      const bool is_shown = is_content_type && shown - entry.arguments[0].size() < kMaxSummaryBytes;
      if (!is_shown) break;
      shown += entry.arguments.emplace_back(arguments[i].substr(0, kShownBytes)).size();
    }
  }
  if (error != nullptr) entry.error = bounded_error(*error);
  // Which arguments the program itself supplied: not the method, if it has a function of its own, nor numbers.
  const size_t end = is_http ? 3 : function == "ai.complete" ? 2 : arguments.size();
  for (size_t i = is_http ? 1 : 0; i < std::min(end, arguments.size()) && function != kRedirect; ++i)
    entry.bytes_out += arguments[i].size();
  return entry;
}

// Once something did not fit, nothing does: so what is only counted came after what is stored.
bool CallLedger::has_room_for(size_t text_bytes) {
  is_full_ = is_full_ || entries_.size() == kMostEntries || text_bytes_ + text_bytes > kMostTextBytes;
  if (!is_full_) text_bytes_ += text_bytes;
  return !is_full_;
}

void CallLedger::add(Entry entry) {
  size_t text = entry.error.reason.size() + entry.error.grant.size();
  for (const std::string& argument : entry.arguments) text += argument.size();
  if (has_room_for(text)) {
    entries_.push_back(std::move(entry));
    return;
  }
  ++not_kept_;
  Counted& counted = counts_[{entry.function, entry.error.code}];
  ++counted.all;
  if (entry.line == Entry::Line::kAlways) ++counted.have_lines;
}

void CallLedger::note_short(std::string_view function, std::span<const std::string_view> arguments,
                            const HostError& error) {
  ++requests_;
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
    const auto passed = std::chrono::steady_clock::now() - ledger_.begun_;
    const auto most_latency_us =
        static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(passed).count());
    std::vector<const CallRecord*> failed;
    for (const CallRecord& line : list_.lines) {
      const Forms forms = forms_of(line.name);
      if (forms.first == nullptr && !is_of_file(line.name))
        return "lists " + described(line) + ", which no program can call";
      if (!is_as_made(line, forms.first, most_latency_us))
        return "lists " + described(line) + ", in a line that no call has";
      if (is_of_file(line.name)) {
        const bool is_found = find_file(line);
        if (is_too_long()) return kTooLong;
        if (!is_found) return "lists " + described(line) + ", which is not so";
        note_place(std::nullopt, line);
        continue;
      }
      const auto place = find_entry(line, forms);
      if (is_too_long()) return kTooLong;
      if (place || find_counted(line, *forms.first)) {
        note_place(place, line);
        continue;
      }
      if (is_held_to_order(line) && is_listed_before(line, forms))
        return "lists " + described(line) + " out of its order";
      if (line.code == Errno::kOk || line.code == Errno::kAccess)
        return "lists " + described(line) + ", which was not asked for so";
      failed.push_back(&line);
    }
    for (const CallRecord* line : failed) {
      const auto place = find_answered(*line, *forms_of(line->name).first);
      if (is_too_long()) return kTooLong;
      note_place(place, *line);
      if (place) continue;
      if (!can_fail_before(*line)) return "lists " + described(*line) + ", which was not asked for so";
      ++without_request_;
    }
    if (malformed_ > Dispatcher::kMaxMalformedRecords)
      return "lists more calls with malformed arguments than a list has";
    return find_left_out();
  }

 private:
  // A true list is nearly in the order of the requests, so matching its lines takes little more than one comparison
  // each. For a forged list, each line might be compared with each request.
  static constexpr uint64_t kMostComparisons = 30'000'000;
  static constexpr uint64_t kComparisonsOfText = 10;  // comparing the shown text costs as much as this many
  static constexpr const char* kTooLong = "lists calls in no order that a program makes them in";
  [[nodiscard]] bool is_too_long() const { return comparisons_ > kMostComparisons; }

  struct Queue {
    std::vector<size_t> places;
    size_t first = 0;  // earlier ones are used
  };

  // The first matching request, among those after `after`, if given.
  template <typename Fits>
  std::optional<size_t> take(std::string_view function, std::optional<size_t> after, Fits fits_line) {
    const auto found = queues_.find(function);
    if (found == queues_.end()) return std::nullopt;
    Queue& queue = found->second;
    while (queue.first < queue.places.size() && used_[queue.places[queue.first]]) ++queue.first;
    size_t i = queue.first;
    if (after) {
      const auto next = std::ranges::upper_bound(queue.places, *after);
      i = std::max(i, static_cast<size_t>(next - queue.places.begin()));
    }
    for (; i < queue.places.size() && !is_too_long(); ++i) {
      ++comparisons_;
      const size_t place = queue.places[i];
      if (used_[place] || !fits_line(ledger_.entries_[place], place)) continue;
      used_[place] = true;
      return place;
    }
    return std::nullopt;
  }

  bool has_target(const Entry& entry, const CallRecord& line, const Row& row) {
    using enum Entry::Headers;
    comparisons_ += kComparisonsOfText;
    if (row.shows_all()) return line.arguments == entry.arguments[static_cast<size_t>(row.target[1] - '0')];
    if (line.name == "http.get" && (entry.arguments[0] != "GET" || entry.headers != kNone)) return false;
    if (line.name == "http.post" && (entry.arguments[0] != "POST" || entry.headers != kContentType))
      return false;
    if (line.name == "sql.schema" && (entry.arguments.size() < 2 || entry.arguments[1] != kSchemaQuery))
      return false;
    const bool has_max_tokens = entry.arguments.size() > 2 && entry.arguments[2] != "0";
    if (line.name == "ai.complete" && (!entry.arguments[0].empty() || has_max_tokens)) return false;
    const bool is_many = line.name == "http.get_many";
    std::vector<std::string> shown;
    for (const char digit : row.target) {
      const auto at = static_cast<size_t>(digit - '0');
      if (digit != '+' && at < entry.arguments.size()) shown.push_back(entry.arguments[at]);
    }
    if (entry.function == "http.request" && row.shows_more())
      return is_summary(with_method_in_capitals(line.arguments, entry.arguments[0].size()), shown, true,
                        false);
    return is_summary(line.arguments, shown, row.shows_more(), is_many);
  }

  // Whether the line describes this request, with the same end.
  bool tells(const Entry& entry, const CallRecord& line, const Row& row) {
    const bool is_absent = line.code == Errno::kOk && is_absence(line.name, entry.error.code);
    if (!is_absent && line.code != entry.error.code) return false;
    if (!is_absent && (line.reason != entry.error.reason || line.grant != entry.error.grant)) return false;
    const bool has_out = line.code == Errno::kOk || !was_refused(entry.error);
    if (has_out ? !fits(row.out, line.bytes_out, entry.bytes_out) : line.bytes_out != 0) return false;
    if (line.code == Errno::kOk ? !fits(row.in, line.bytes_in, entry.bytes_in) : line.bytes_in != 0)
      return false;
    return has_target(entry, line, row);
  }
  bool tells(const Entry& entry, const CallRecord& line, const Forms& forms) {
    return tells(entry, line, *forms.first) || (forms.second != nullptr && tells(entry, line, *forms.second));
  }

  // Lines are in the order of their requests. For lines that end like a call without a request, or like one whose
  // answer came, the request is not known.
  static bool is_held_to_order(const CallRecord& line) {
    return !can_end_before(line.name, line.code) && !can_fail_afterwards(line.name, line.code);
  }

  std::optional<size_t> find_entry(const CallRecord& line, const Forms& forms) {
    if (line.name == "ai.similarity") return find_two(line, *forms.first);
    const bool is_held = is_held_to_order(line);
    const auto place = take(forms.first->function, is_held ? last_ : std::nullopt,
                            [&](const Entry& entry, size_t) { return tells(entry, line, forms); });
    if (place && is_held) last_ = place;
    return place;
  }

  // Whether the line would match a request that precedes one whose line came before.
  bool is_listed_before(const CallRecord& line, const Forms& forms) {
    return take(forms.first->function, std::nullopt,
                [&](const Entry& entry, size_t) { return tells(entry, line, forms); })
        .has_value();
  }

  // Matches requests that were only counted.
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

  // Two texts are embedded, one after the other, unless the first is refused.
  std::optional<size_t> find_two(const CallRecord& line, const Row& row) {
    const bool is_held = is_held_to_order(line);
    std::optional<size_t> second;
    const auto is_end = [&](const Entry& entry) {
      if (entry.error.code == Errno::kOk)
        return line.code == Errno::kOk || can_fail_afterwards(line.name, line.code);
      return entry.error.code == line.code && entry.error.reason == line.reason &&
             entry.error.grant == line.grant;
    };
    const auto place = take(row.function, is_held ? last_ : std::nullopt, [&](const Entry& first, size_t at) {
      second.reset();
      if (first.error.code != Errno::kOk) return is_end(first) && has_target(first, line, row);
      comparisons_ += kComparisonsOfText;
      const bool is_last = at + 1 == ledger_.entries_.size();  // then the second was only counted
      if (is_last) return ledger_.is_full_ && has_target(first, line, row) && find_counted(line, row);
      const Entry& next = ledger_.entries_[at + 1];
      if (next.function != row.function || used_[at + 1] || !is_end(next)) return false;
      const std::string both[] = {first.arguments[0], next.arguments[0]};
      if (!is_summary(line.arguments, both, false, false)) return false;
      second = at + 1;
      return true;
    });
    if (second) used_[*second] = true;
    if (place && is_held) last_ = second.value_or(*place);
    return place;
  }

  // The request succeeded, and the call itself failed afterwards. The bytes that left with it still show that it was
  // made.
  std::optional<size_t> find_answered(const CallRecord& line, const Row& row) {
    if (!can_fail_afterwards(line.name, line.code)) return std::nullopt;
    constexpr std::string_view kNoRows = "[]";
    return take(row.function, std::nullopt, [&](const Entry& entry, size_t) {
      if (entry.error.code != Errno::kOk || !line.grant.empty()) return false;
      if (line.code == Errno::kNotFound && entry.bytes_in != kNoRows.size()) return false;
      if (line.bytes_in != 0 && !fits(row.in, line.bytes_in, entry.bytes_in)) return false;
      return fits(row.out, line.bytes_out, entry.bytes_out) && has_target(entry, line, row);
    });
  }

  bool find_file(const CallRecord& line) {
    while (first_file_ < used_files_.size() && used_files_[first_file_]) ++first_file_;
    for (size_t i = first_file_; i < used_files_.size() && !is_too_long(); ++i) {
      ++comparisons_;
      const File& file = ledger_.files_[i];
      const bool is_it =
          !used_files_[i] && file.path == line.arguments && file.writes == (line.name == "fs.file_written") &&
          file.last_error.code == line.code && file.last_error.reason == line.reason &&
          file.last_error.grant == line.grant &&
          (list_.began_elsewhere ? line.bytes_in >= file.bytes_in && line.bytes_out >= file.bytes_out
                                 : line.bytes_in == file.bytes_in && line.bytes_out == file.bytes_out);
      if (!is_it) continue;
      used_files_[i] = true;
      return true;
    }
    if (files_left_ > 0) return --files_left_, true;
    return may_be_of_file_before(line);
  }

  // A file used before the program was frozen, but not since: it is listed when it is closed, with the bytes read
  // and written before.
  bool may_be_of_file_before(const CallRecord& line) {
    const bool writes = line.name == "fs.file_written";
    return list_.began_elsewhere && line.code == Errno::kOk && line.reason.empty() && line.grant.empty() &&
           (line.bytes_in != 0 || line.bytes_out != 0) && (writes || line.bytes_out == 0) &&
           files_before_++ < FileHandles::kMostOpen && list_.may_have_been_open &&
           list_.may_have_been_open(line.arguments, writes);
  }

  [[nodiscard]] bool must_have_line(const Entry& entry) const {
    using enum Entry::Line;
    if (entry.line != kUnlessOpenedBefore) return entry.line == kAlways;
    const bool was_opened =
        list_.has_past || ledger_.opened_too_many_ || ledger_.opened_before_.contains(entry.arguments[0]);
    return !was_opened;
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
      // A list has at most this many malformed ones, however much room there is.
      const bool may_have_been_one_too_many =
          is_malformed(entry.error.code) && malformed_ == Dispatcher::kMaxMalformedRecords;
      if (!may_have_been_one_too_many && !first_place) first_place = i;
      needs_room = needs_room || !may_have_been_one_too_many;
    }
    for (size_t i = 0; i < used_files_.size(); ++i) {
      const File& file = ledger_.files_[i];
      const bool did = did_something(file) || file.last_error.code != Errno::kOk;
      if (used_files_[i] || !did || (list_.is_paused && ledger_.may_be_open(file))) continue;
      miss(file);
      needs_room = true;
    }
    if (ledger_.short_ && !list_.may_end_short) return "leaves out " + described(line_of(*ledger_.short_));
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
    // A full list says how many calls it omitted. It must not have been filled with calls that were never made.
    const bool is_filled_by_what_was_asked = without_request_ <= Dispatcher::kMaxMalformedRecords;
    const bool may_be = !needs_room || (is_filled_by_what_was_asked && had_no_room(first_place));
    if (count <= list_.dropped && may_be) return std::nullopt;
    return "leaves out " + described(*first);
  }

  // -- room
  // Whether a list may have had no room for another line when the request at `place` came; without a place, at its end.
  // The position of a line without a request is not known.
  [[nodiscard]] bool had_no_room(std::optional<size_t> place) const {
    constexpr size_t kLongestLine = 12u << 10;  // longer than any line
    constexpr size_t kTogether = 64;            // lines of one call may be reordered
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
  Counts counts_;        // requests without a matching line
  uint64_t files_left_;  // the same, for files
  uint64_t files_before_ = 0;
  size_t first_file_ = 0;                         // first unused element of used_files_
  uint64_t malformed_ = 0, without_request_ = 0;  // lines
  std::vector<std::pair<std::optional<size_t>, size_t>>
      listed_;  // each line's request, and the size of its text
  uint64_t comparisons_ = 0;
  std::optional<size_t> last_;  // position of the last line that is held to the order
};

std::optional<std::string> CallLedger::difference(const List& list) const {
  return Comparison(*this, list).run();
}

CallRecord CallLedger::line_of(const Entry& entry) {
  std::string arguments;
  for (size_t i = 0; i < std::min<size_t>(entry.arguments.size(), 2); ++i)
    if (!entry.arguments[i].empty()) arguments += (arguments.empty() ? "" : ", ") + entry.arguments[i];
  arguments = place_of_whole(entry.function) ? utf8_repair(arguments) : bounded_summary(std::move(arguments));
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
