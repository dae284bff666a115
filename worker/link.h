// The worker's end of the socket. What a program writes is gathered for a moment, so that a line costs no system call;
// it goes before anything else does, and at the latest a few milliseconds later while the program runs.
//
// A supervisor that is gone ends the process: nobody is left to work for.
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
  // Or nothing, when one of `others` can be read.
  std::optional<Frame> receive_or_wake(std::span<const int> others);
  void send(Kind kind, uint32_t subject, std::string_view payload, std::span<const int> descriptors = {});

  // The answer to a question, as bytes.
  std::string ask(uint32_t subject, std::string_view question);

  void write(uint32_t subject, bool is_error, std::string_view text);
  // What was written some milliseconds ago goes now.
  void flush_if_old();
  void flush();

 private:
  using Clock = std::chrono::steady_clock;

  Channel channel_;
  std::string written_;  // frames' payloads: is_error and text
  uint32_t writer_ = 0;
  bool to_error_ = false;
  Clock::time_point flushed_{};
};

}  // namespace membrane::worker
