// Notifies a client of a call in progress: the program's output as progress, and log messages.
//
// The progress is a growing number: the bytes that were printed so far, plus one for each earlier step.
// Output that comes too fast for single messages is merged; the answer contains what is not sent.
//
// For .cc files of this floor. Threads: one at a time.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "mcp/log.h"
#include "mcp/message.h"
#include "mcp/request.h"
#include "sandbox/report.h"

namespace membrane::mcp {

class Notifier {
 public:
  // Borrowed.
  Notifier(const RequestTerms& terms, const std::function<void(std::string_view)>& notify)
      : terms_(terms), notify_(notify) {}

  [[nodiscard]] bool tells_progress() const { return notify_ && !terms_.progress_token.is_null(); }
  void step(std::string_view what);
  void output(std::string_view text);
  void log(LogLevel level, const OrderedJson& data);

 private:
  void progress(std::string_view message);

  const RequestTerms& terms_;
  const std::function<void(std::string_view)>& notify_;
  uint64_t progress_ = 0, told_ = 0;
  std::string unsent_;
  std::chrono::steady_clock::time_point last_{};  // of the last output notification; the first is immediate
  size_t sent_ = 0, logged_ = 0;
};

}  // namespace membrane::mcp
