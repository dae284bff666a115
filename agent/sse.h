// Server-sent events, read as they arrive (WHATWG HTML, section 9.2 "Server-sent
// events", parsing and interpreting an event stream).
//
// Feed bytes in any pieces; every split of the same bytes gives the same events (sse_fuzz.cc checks this). A
// stream is UTF-8; bytes are passed on as they came, and the reader of the data checks validity.
//
// Limits: a line and an event's data are bounded; longer ones are refused, and the parser then stays failed.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace membrane::agent {

struct SseEvent {
  std::string type = "message";  // the "event" field
  std::string data;              // the "data" lines, joined by "\n"
  std::string last_event_id;     // of this or an earlier event of the stream

  friend bool operator==(const SseEvent&, const SseEvent&) = default;
};

struct SseLimits {
  size_t line_bytes = 1u << 20;  // without its end
  size_t data_bytes = 4u << 20;  // of one event
};

class SseParser {
 public:
  // `on_event` is called from feed(), once for each complete event. It must not call feed().
  explicit SseParser(std::function<void(const SseEvent&)> on_event, SseLimits limits = {});

  // kExhausted when a limit is passed.
  Status feed(std::string_view bytes);

  // The incomplete event at the end of the stream, if any. The standard discards it; servers that forget the
  // last blank line make it worth a look once the stream is over.
  [[nodiscard]] std::optional<SseEvent> unfinished() const;

  // The value of the last valid "retry" field.
  [[nodiscard]] std::optional<uint64_t> retry_ms() const { return retry_ms_; }

 private:
  void end_line();
  void field(std::string_view name, std::string_view value);
  void dispatch();
  Status too_long(const char* what, size_t limit);

  std::function<void(const SseEvent&)> on_event_;
  SseLimits limits_;
  std::string line_;
  bool after_cr_ = false;   // an LF that comes next belongs to the CR before it
  bool first_line_ = true;  // it may start with a byte order mark
  bool failed_ = false;
  SseEvent event_;         // being gathered
  bool has_data_ = false;  // event_.data holds a line, maybe an empty one
  std::optional<uint64_t> retry_ms_;
};

}  // namespace membrane::agent
