#include "sandbox/run/output_limit.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/text.h"
#include "base/utf8.h"
#include "sandbox/run/report_building.h"
#include "sandbox/run/stops.h"

namespace membrane::sandbox {
namespace {

// The cost of an entry of a list or an object besides its texts.
constexpr uint64_t kEntryBytes = 8;
// Of U+FFFD, which stands for a byte that is not UTF-8.
constexpr uint64_t kReplacementBytes = 3;

class Account {
 public:
  explicit Account(uint64_t room, uint64_t cut = 0) : room_(room), cut_(cut) {}

  // Takes as much of it as there is room for.
  void take(std::string& text) {
    const size_t kept = utf8_cut(text, static_cast<size_t>(std::min<uint64_t>(room_, text.size())));
    cut_ += text.size() - kept;
    room_ -= kept;
    text.resize(kept);
  }
  // Takes all of it, or nothing.
  bool take_whole(uint64_t bytes) {
    if (bytes > room_) {
      cut_ += bytes;
      return false;
    }
    room_ -= bytes;
    return true;
  }
  [[nodiscard]] uint64_t room() const { return room_; }
  [[nodiscard]] uint64_t cut() const { return cut_; }

 private:
  uint64_t room_;
  uint64_t cut_;
};

bool is_plain_text(const MimePart& part) { return part.type == "text/plain" && !part.is_base64; }

// What was counted as it was written stays whole, though its text is longer where it has U+FFFD. A snapshot of
// someone else's, and one that is thawed with a lower limit, can hold more than that.
void take_streams(Account& account, Report& report, uint64_t written_bytes) {
  const bool is_counted = written_bytes <= account.room();
  Account texts(is_counted ? kReplacementBytes * written_bytes : account.room());
  for (std::string* const text : {&report.stdout_text, &report.stderr_text}) texts.take(*text);
  account = Account(is_counted ? account.room() - written_bytes : texts.room(), account.cut() + texts.cut());
}

// The plain text comes first: readers look for it first.
void take(Account& account, RichValue& value) {
  std::ranges::stable_partition(value, is_plain_text);
  RichValue kept;
  for (MimePart& part : value) {
    if (is_plain_text(part)) account.take(part.data);
    else if (!account.take_whole(part.type.size() + part.data.size() + kEntryBytes)) continue;
    kept.push_back(std::move(part));
  }
  value = std::move(kept);
}

void take(Account& account, std::vector<RichValue>& displays) {
  std::vector<RichValue> kept;
  for (RichValue& display : displays) {
    if (!account.take_whole(kEntryBytes)) continue;
    take(account, display);
    if (!display.empty()) kept.push_back(std::move(display));
  }
  displays = std::move(kept);
}

void take(Account& account, ReportError& error) {
  for (std::string* const text :
       {&error.code, &error.message, &error.place.file, &error.place.function, &error.hint, &error.traceback})
    account.take(*text);
  std::erase_if(error.backtrace, [&](const ReportPlace& place) {
    return !account.take_whole(place.file.size() + place.function.size() + kEntryBytes);
  });
}

// Errors have an allowance of their own; what they leave of the rest is available to others.
uint64_t take(Account& account, std::vector<ReportError>& errors) {
  Account with_allowance(account.room() + kErrorBytes);
  std::erase_if(errors, [&, is_first = true](ReportError& error) mutable {
    if (!std::exchange(is_first, false) && !with_allowance.take_whole(kEntryBytes)) return true;
    take(with_allowance, error);
    return false;
  });
  account = Account(std::min(account.room(), with_allowance.room()));
  return with_allowance.cut();
}

ReportError error_of_cut(uint64_t cut, uint64_t limit) {
  ReportError error;
  error.code = std::string(name_of(Outcome::kOutOfOutput));
  error.message = "the program's value and displays have " + count_of(cut, "byte") +
                  " more than its output limit of " + std::to_string(limit) + " has room for; they were cut";
  error.hint = "Give less, write it to a file" + or_raise_output(limit) + ". What the program did stays.";
  return error;
}

}  // namespace

void limit_output(Report& report, uint64_t written_bytes, uint64_t limit_bytes) {
  Account output(limit_bytes);
  take_streams(output, report, written_bytes);
  output.take(report.answer);
  const bool result_is_value = !report.value.empty();
  if (!result_is_value) output.take(report.result);
  uint64_t cut = output.cut();

  Account errors(output.room());
  cut += take(errors, report.errors);

  Account given(errors.room());
  take(given, report.value);
  take(given, report.displays);
  std::erase_if(report.results, [&](const ReportValue& value) {
    return !given.take_whole(value.value.size() + kEntryBytes);
  });
  if (result_is_value) {
    const auto text = std::ranges::find_if(report.value, is_plain_text);
    report.result = text == report.value.end() ? std::string() : text->data;
  }
  if (given.cut() != 0 && report.outcome == Outcome::kOk) {
    report.outcome = Outcome::kOutOfOutput;
    report.errors.push_back(error_of_cut(given.cut(), limit_bytes));
  }
  cut += given.cut();

  Account listed(given.room());
  std::erase_if(report.files,
                [&](const ReportFile& file) { return !listed.take_whole(file.path.size() + kEntryBytes); });
  report.output_bytes_cut = cut + listed.cut();
}

}  // namespace membrane::sandbox
