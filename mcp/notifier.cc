#include "mcp/notifier.h"

#include <algorithm>

#include "base/utf8.h"

namespace membrane::mcp {
namespace {

constexpr size_t kMaxMessageBytes = 4u << 10;
constexpr size_t kMaxNotifications = 1'000;  // per call and kind
constexpr std::chrono::milliseconds kBetween(50);

}  // namespace

void Notifier::progress(std::string_view message) {
  if (progress_ <= told_ || sent_ == kMaxNotifications) return;
  ++sent_;
  told_ = progress_;
  notify_(notification_message(
      "notifications/progress",
      {{"progressToken", terms_.progress_token}, {"progress", progress_}, {"message", message}}));
}

void Notifier::step(std::string_view what) {
  if (!tells_progress()) return;
  ++progress_;
  progress(what);
}

void Notifier::output(std::string_view text) {
  if (!tells_progress()) return;
  progress_ += text.size();
  const size_t room = kMaxMessageBytes - std::min(kMaxMessageBytes, unsent_.size());
  unsent_ += text.substr(0, utf8_cut(text, std::min(room, text.size())));
  const auto now = std::chrono::steady_clock::now();
  if (now - last_ < kBetween) return;
  last_ = now;
  progress(unsent_);
  unsent_.clear();
}

void Notifier::log(LogLevel level, const OrderedJson& data) {
  if (!notify_ || !terms_.log_level || level < *terms_.log_level || logged_ == kMaxNotifications) return;
  ++logged_;
  notify_(notification_message("notifications/message",
                               {{"level", name_of(level)}, {"logger", "membrane"}, {"data", data}}));
}

}  // namespace membrane::mcp
