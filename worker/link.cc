#include "worker/link.h"

#include <unistd.h>

namespace membrane::worker {
namespace {

constexpr size_t kMostGathered = 32u << 10;
constexpr std::chrono::milliseconds kOld(5);

// The supervisor is gone, or breaks its own protocol.
[[noreturn]] void end_worker() { _exit(1); }

}  // namespace

Frame Link::receive() {
  while (true) {
    auto frame = channel_.receive();
    if (!frame) end_worker();
    if (*frame) return *std::move(*frame);
  }
}

std::optional<Frame> Link::receive_or_wake(std::span<const int> others) {
  auto frame = channel_.receive(Channel::Clock::time_point::max(), others);
  if (!frame) end_worker();
  return *std::move(frame);
}

void Link::send(Kind kind, uint32_t subject, std::string_view payload, std::span<const int> descriptors) {
  flush();
  if (!channel_.send(static_cast<uint16_t>(kind), subject, payload, descriptors)) end_worker();
}

std::string Link::ask(uint32_t subject, std::string_view question) {
  send(Kind::kRequest, subject, question);
  Frame answer = receive();
  if (answer.kind != static_cast<uint16_t>(Kind::kAnswer)) end_worker();
  return std::move(answer.payload);
}

void Link::write(uint32_t subject, bool is_error, std::string_view text) {
  if (text.empty()) return;
  if (!written_.empty() && (writer_ != subject || to_error_ != is_error)) flush();
  writer_ = subject;
  to_error_ = is_error;
  written_ += text;
  if (written_.size() >= kMostGathered) flush();
  else flush_if_old();
}

void Link::flush_if_old() {
  if (!written_.empty() && Clock::now() - flushed_ >= kOld) flush();
}

void Link::flush() {
  if (written_.empty()) return;
  const std::string bytes = bytes_of(to_error_, written_);
  written_.clear();
  flushed_ = Clock::now();
  if (!channel_.send(static_cast<uint16_t>(Kind::kOutput), writer_, bytes)) end_worker();
}

}  // namespace membrane::worker
