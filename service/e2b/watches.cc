#include "service/e2b/watches.h"

#include <algorithm>

#include "base/json.h"
#include "service/e2b/connect.h"
#include "service/tokens.h"

namespace membrane::service::e2b {
namespace {

constexpr size_t kMostAtOnce = 4u << 20;

std::string_view type_of(std::string_view event) {
  if (event == "created") return "EVENT_TYPE_CREATE";
  if (event == "changed") return "EVENT_TYPE_WRITE";
  if (event == "removed") return "EVENT_TYPE_REMOVE";
  return "";
}

std::string frame_of(const char* kind, const nlohmann::ordered_json& event) {
  return frame(json_text(nlohmann::ordered_json{{kind, event}}));
}

}  // namespace

// "id: 1\nevent: created\ndata: {…}", or a comment.
void WatchEvents::read(std::string_view block, std::vector<WatchEvent>& events) const {
  std::string_view event, data;
  while (!block.empty()) {
    const size_t end = std::min(block.find('\n'), block.size());
    const std::string_view line = block.substr(0, end);
    block.remove_prefix(std::min(end + 1, block.size()));
    if (line.starts_with("event: ")) event = line.substr(7);
    if (line.starts_with("data: ")) data = line.substr(6);
  }
  const std::string_view type = type_of(event);
  const auto json = read_json(data, "the event");
  if (type.empty() || !json || !json->is_object()) return;
  std::string name = json->value("path", "");
  const std::string below = directory_ == "/" ? directory_ : directory_ + "/";
  if (!name.starts_with(below)) return;
  name.erase(0, below.size());
  if (is_deep_ || !name.contains('/')) events.push_back({std::move(name), type});
}

WatchEvents::Taken WatchEvents::take(size_t most_bytes, std::function<void()> wake) {
  const BodySource::Piece piece = source_->next(most_bytes, std::move(wake));
  Taken taken{.events = {}, .has_read = !piece.bytes.empty(), .is_end = piece.is_end};
  rest_ += piece.bytes;
  size_t at = 0;
  for (size_t end = 0; (end = rest_.find("\n\n", at)) != std::string::npos; at = end + 2)
    read(std::string_view(rest_).substr(at, end - at), taken.events);
  rest_.erase(0, at);
  return taken;
}

BodySource::Piece WatchStream::next(size_t most_bytes, std::function<void()> wake) {
  if (!has_begun_) {
    has_begun_ = true;
    return {.bytes = frame_of("start", nlohmann::ordered_json::object()), .is_end = false};
  }
  const WatchEvents::Taken taken = events_.take(most_bytes, std::move(wake));
  Piece piece{.bytes = {}, .is_end = taken.is_end};
  for (const WatchEvent& event : taken.events)
    piece.bytes += frame_of("filesystem", {{"name", event.name}, {"type", event.type}});
  if (taken.is_end) piece.bytes += end_frame();
  else if (piece.bytes.empty() && taken.has_read)
    piece.bytes = keep_alive();  // so that the next piece is asked for
  return piece;
}

std::string WatchStream::keep_alive() const {
  return frame_of("keepalive", nlohmann::ordered_json::object());
}

Watchers::~Watchers() {
  for (auto& [id, events] : watchers_) events.end();
}

std::string Watchers::add(WatchEvents events) {
  std::string id = new_id("wat");
  const std::lock_guard lock(mutex_);
  watchers_.emplace(id, std::move(events));
  return id;
}

std::optional<std::vector<WatchEvent>> Watchers::take(std::string_view id) {
  const std::lock_guard lock(mutex_);
  const auto found = watchers_.find(id);
  if (found == watchers_.end()) return std::nullopt;
  return found->second.take(kMostAtOnce, [] {}).events;
}

bool Watchers::remove(std::string_view id) {
  const std::lock_guard lock(mutex_);
  const auto found = watchers_.find(id);
  if (found == watchers_.end()) return false;
  found->second.end();
  watchers_.erase(found);
  return true;
}

}  // namespace membrane::service::e2b
