#include "linux/sandbox/orders.h"

#include <unistd.h>

#include <chrono>
#include <thread>
#include <utility>

namespace membrane::linux {

namespace {

constexpr auto kPatience = std::chrono::seconds(2);

size_t cost_of(const Frame& frame) { return frame.bytes.size() + sizeof frame; }

}  // namespace

Orders::Orders(FrameSocket& socket, std::function<void()> wake) : wake_(std::move(wake)) {
  std::thread([this, &socket] { read_all(socket); }).detach();
}

void Orders::read_all(FrameSocket& socket) {
  while (auto frame = socket.receive()) {
    {
      std::unique_lock lock(mutex_);
      room_.wait(lock, [this] { return bytes_ < kMostBytes; });
      bytes_ += cost_of(*frame);
      frames_.push_back(std::move(*frame));
      news_.notify_one();
    }
    wake_();
  }
  {
    const std::scoped_lock lock(mutex_);
    has_ended_ = true;
    news_.notify_one();
  }
  wake_();
  std::this_thread::sleep_for(kPatience);
  _exit(1);
}

std::optional<Frame> Orders::take_front() {
  if (frames_.empty()) return std::nullopt;
  Frame frame = std::move(frames_.front());
  frames_.pop_front();
  bytes_ -= cost_of(frame);
  room_.notify_one();
  return frame;
}

std::optional<Frame> Orders::take() {
  const std::scoped_lock lock(mutex_);
  return take_front();
}

std::optional<Frame> Orders::wait() {
  std::unique_lock lock(mutex_);
  news_.wait(lock, [this] { return has_ended_ || !frames_.empty(); });
  return take_front();
}

bool Orders::has_ended() {
  const std::scoped_lock lock(mutex_);
  return has_ended_;
}

}  // namespace membrane::linux
