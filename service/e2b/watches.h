// Changes of a directory for E2B's clients, from the server-sent events of service/file_watch.h: as a stream
// of messages, or polled.
//
// Threads: WatchEvents and WatchStream as for BodySource; Watchers any.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "service/http.h"

namespace membrane::service::e2b {

struct WatchEvent {
  std::string name;       // below the directory
  std::string_view type;  // "EVENT_TYPE_CREATE"
};

class WatchEvents {
 public:
  // With `is_deep` it also reports changes inside subdirectories of `directory`.
  WatchEvents(std::shared_ptr<BodySource> source, std::string directory, bool is_deep)
      : source_(std::move(source)), directory_(std::move(directory)), is_deep_(is_deep) {}

  struct Taken {
    std::vector<WatchEvent> events;
    bool has_read = false;  // something came, even if only a comment
    bool is_end = false;
  };
  // The events so far; `wake` as in BodySource::next().
  Taken take(size_t most_bytes, std::function<void()> wake);
  void end() { source_->abandon(); }

 private:
  void read(std::string_view block, std::vector<WatchEvent>& events) const;

  std::shared_ptr<BodySource> source_;
  std::string directory_;
  bool is_deep_ = false;
  std::string rest_;  // an incomplete event
};

// Frames of WatchDirResponse.
class WatchStream final : public BodySource {
 public:
  explicit WatchStream(WatchEvents events) : events_(std::move(events)) {}

  Piece next(size_t most_bytes, std::function<void()> wake) override;
  [[nodiscard]] std::string keep_alive() const override;
  void abandon() override { events_.end(); }

 private:
  WatchEvents events_;
  bool has_begun_ = false;
};

// The polled watchers of one sandbox.
class Watchers {
 public:
  ~Watchers();
  // Its id.
  std::string add(WatchEvents events);
  // The events since the last call; nothing when there is no such watcher.
  std::optional<std::vector<WatchEvent>> take(std::string_view id);
  bool remove(std::string_view id);

 private:
  std::mutex mutex_;  // guards what follows
  std::map<std::string, WatchEvents, std::less<>> watchers_;
};

}  // namespace membrane::service::e2b
