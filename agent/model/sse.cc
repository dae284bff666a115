#include "agent/model/sse.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"

namespace membrane::agent {

namespace {
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// Splits "name: value" as the standard does: the first colon ends the name, and one space after it is
// dropped.
void split_field(std::string_view line, std::string_view& name, std::string_view& value) {
  const size_t colon = line.find(':');
  name = line.substr(0, colon);
  value = colon == std::string_view::npos ? std::string_view() : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
}
}  // namespace

SseParser::SseParser(std::function<void(const SseEvent&)> on_event, SseLimits limits)
    : on_event_(std::move(on_event)), limits_(limits) {}

Status SseParser::too_long(const char* what, size_t limit) {
  failed_ = true;
  return fail(ErrorCode::kExhausted,
              std::string("The event stream has ") + what + " of more than " + count_of(limit, "byte") + ".");
}

Status SseParser::feed(std::string_view bytes) {
  if (failed_) return fail(ErrorCode::kExhausted, "The event stream was refused before.");
  while (!bytes.empty()) {
    if (after_cr_) {
      after_cr_ = false;
      if (bytes.front() == '\n') bytes.remove_prefix(1);
      continue;
    }
    const size_t end = std::min(bytes.find_first_of("\r\n"), bytes.size());
    if (line_.size() + end > limits_.line_bytes) return too_long("a line", limits_.line_bytes);
    line_.append(bytes.substr(0, end));
    if (end == bytes.size()) return {};
    after_cr_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    end_line();
    if (event_.data.size() > limits_.data_bytes) return too_long("an event", limits_.data_bytes);
  }
  return {};
}

void SseParser::end_line() {
  std::string_view line = line_;
  if (first_line_ && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
  first_line_ = false;
  if (line.empty()) {
    dispatch();
  } else if (line.front() != ':') {  // else a comment
    std::string_view name, value;
    split_field(line, name, value);
    field(name, value);
  }
  line_.clear();
}

void SseParser::field(std::string_view name, std::string_view value) {
  if (name == "data") {
    if (has_data_) event_.data += '\n';
    event_.data += value;
    has_data_ = true;
  } else if (name == "event") {
    event_.type = value.empty() ? "message" : std::string(value);
  } else if (name == "id") {
    if (value.find('\0') == std::string_view::npos) event_.last_event_id = value;
  } else if (name == "retry") {
    uint64_t ms = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), ms);
    if (error == std::errc() && end == value.data() + value.size()) retry_ms_ = ms;
  }
}

void SseParser::dispatch() {
  if (has_data_) on_event_(event_);
  event_.type = "message";
  event_.data.clear();
  has_data_ = false;
}

std::optional<SseEvent> SseParser::unfinished() const {
  SseEvent event = event_;
  bool has_data = has_data_;
  std::string_view name, value;
  split_field(line_, name, value);
  if (name == "data") {
    if (has_data) event.data += '\n';
    event.data += value;
    has_data = true;
  }
  return has_data ? std::optional(std::move(event)) : std::nullopt;
}

}  // namespace membrane::agent
