// The worker's end of the socket. A program's output is buffered briefly, so that a line costs no system
// call; it is sent before anything else, and at the latest a few milliseconds later while the program runs.
//
// When the supervisor is gone the process ends: nobody is left to work for.
//
// Threads: one at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "worker/channel.h"
#include "worker/messages.h"

namespace membrane::worker {

class Link {
 public:
  explicit Link(Channel channel) : channel_(std::move(channel)) {}
  [[nodiscard]] int descriptor() const { return channel_.descriptor(); }

  // The supervisor's next command.
  Frame receive();
  // Or nothing, when one of `others` is readable.
  std::optional<Frame> receive_or_wake(std::span<const int> others);
  void send(Kind kind, uint32_t subject, std::string_view payload, std::span<const int> descriptors = {});

  // Returns the answer to a request, as bytes.
  std::string ask(uint32_t subject, std::string_view question);

  void write(uint32_t subject, bool is_error, std::string_view text);
  // Sends output that was written some milliseconds ago.
  void flush_if_old();
  void flush();

 private:
  using Clock = std::chrono::steady_clock;

  Channel channel_;
  std::string written_;  // payloads of frames: is_error and text
  uint32_t writer_ = 0;
  bool to_error_ = false;
  Clock::time_point flushed_{};
};

}  // namespace membrane::worker
