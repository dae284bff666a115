// The owner's orders in the kernel process: a thread reads them as they come, the kernel's thread takes them.
//
// The reading thread lives as long as the process. When the owner is gone it waits a moment for the kernel to
// end all guests, and then ends the process itself.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>

#include "linux/sandbox/protocol.h"

namespace membrane::linux {

class Orders {
 public:
  // Starts the thread, which calls `wake` when there is news. Both live as long as the process.
  Orders(FrameSocket& socket, std::function<void()> wake);

  // The next order, at once or after a wait. Nothing: there is none now; the owner is gone.
  std::optional<Frame> take();
  std::optional<Frame> wait();
  [[nodiscard]] bool has_ended();

 private:
  static constexpr size_t kMostBytes = 8u << 20;  // waiting bytes, before reading stops
  void read_all(FrameSocket& socket);
  std::optional<Frame> take_front();

  const std::function<void()> wake_;
  std::mutex mutex_;  // of what follows
  std::condition_variable news_, room_;
  std::deque<Frame> frames_;
  size_t bytes_ = 0;
  bool has_ended_ = false;
};

}  // namespace membrane::linux
