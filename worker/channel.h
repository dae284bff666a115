// Frames over a socket between a worker and its supervisor. The other side may be hostile: a frame is
// bounded, read as it arrives, and never waited for past a deadline.
//
//   4 bytes  bytes of the payload        2 bytes  kind (messages.h)
//   2 bytes  descriptors that come along 4 bytes  subject: a session, or 0
//   payload
//
// Ownership: the channel owns its descriptor. Threads: one at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace membrane::worker {

// A descriptor that is closed with its owner.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();

  [[nodiscard]] int number() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }

 private:
  int number_ = -1;
};

struct Frame {
  uint16_t kind = 0;
  uint32_t subject = 0;
  std::string payload;
  std::vector<Descriptor> descriptors;
};

class Channel {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kMostDescriptors = 4, kMostOthers = 2;

  // A connected stream socket. `most_bytes` limits a received payload.
  Channel(Descriptor socket, uint64_t most_bytes) : socket_(std::move(socket)), most_bytes_(most_bytes) {}
  static Result<std::pair<Descriptor, Descriptor>> make_pair();

  // `sooner` is called some fifty times per second while the other side does not read, and can move the
  // deadline forward. Errors: kUnavailable when the other side is gone; kTimedOut when it has not read by
  // `until`; kExhausted for a payload that no frame can hold.
  Status send(uint16_t kind, uint32_t subject, std::string_view payload,
              std::span<const int> descriptors = {}, Clock::time_point until = Clock::time_point::max(),
              const std::function<Clock::time_point()>& sooner = {});
  // The next frame; nothing when `until` has passed, a signal has arrived, or one of `others` is readable: a
  // partly received frame is kept. Errors: kUnavailable when the other side is gone, or has closed in the
  // middle of a frame; kInvalidInput for anything but a frame.
  Result<std::optional<Frame>> receive(Clock::time_point until = Clock::time_point::max(),
                                       std::span<const int> others = {});

  void set_most_bytes(uint64_t bytes) { most_bytes_ = bytes; }
  [[nodiscard]] int descriptor() const { return socket_.number(); }

 private:
  Result<std::optional<Frame>> next();
  // False when there is nothing to read now.
  Result<bool> read_some();

  Descriptor socket_;
  uint64_t most_bytes_;
  std::string in_;  // received bytes, from at_ on not yet consumed
  size_t at_ = 0;
  std::vector<Descriptor> came_along_;
};

}  // namespace membrane::worker
