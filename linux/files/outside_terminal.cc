#include "linux/files/outside_terminal.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <utility>

namespace membrane::linux {

OutsideTerminal::OutsideTerminal(std::shared_ptr<PtyMaster> master, OutsideOutput::Sink sink,
                                 std::shared_ptr<OutputCount> count, std::function<void()> wake)
    : master_(std::move(master)),
      terminal_(master_->terminal()),
      sink_(std::move(sink)),
      count_(std::move(count)),
      wake_(std::move(wake)) {
  terminal_->is_locked = false;
  join(terminal_->changed);
}

OutsideTerminal::~OutsideTerminal() {
  leave();
  stop();
}

size_t OutsideTerminal::feed(std::span<const std::byte> bytes) {
  size_t count = 0;
  {
    const std::scoped_lock lock(mutex_);
    if (outside_.has_ended) return 0;
    count = std::min(bytes.size(), kCapacity - outside_.bytes.size());
    outside_.bytes.append(bytes.first(count));
  }
  if (count > 0) on_wake();
  return count;
}

bool OutsideTerminal::wait_for_room() {
  std::unique_lock lock(mutex_);
  room_.wait(lock, [this] { return is_stopped_ || outside_.has_ended || outside_.bytes.size() < kCapacity; });
  return !is_stopped_ && !outside_.has_ended;
}

void OutsideTerminal::resize(const winsize& size) {
  {
    const std::scoped_lock lock(mutex_);
    outside_.size = size;
  }
  on_wake();
}

void OutsideTerminal::end() {
  {
    const std::scoped_lock lock(mutex_);
    outside_.has_ended = true;
    room_.notify_all();
  }
  on_wake();
}

void OutsideTerminal::has_room() { on_wake(); }

// Also of the queue of the terminal: guests have written or read, which after_wake() looks at.
void OutsideTerminal::on_wake() {
  if (!is_woken_.exchange(true) && wake_) wake_();
}

Try<FileRef> OutsideTerminal::open() { return open_slave(terminal_, O_RDWR); }

void OutsideTerminal::after_wake() {
  if (!is_woken_.exchange(false) || master_ == nullptr) return;
  move_input();
  move_output();
}

void OutsideTerminal::move_input() {
  std::optional<winsize> size;
  size_t count = 0;
  bool ends = false;
  {
    const std::scoped_lock lock(mutex_);
    size = std::exchange(outside_.size, std::nullopt);
    count = terminal_->line.receive(outside_.bytes.bytes());
    outside_.bytes.drop(count);
    ends = outside_.has_ended && outside_.bytes.is_empty();
    if (count > 0) room_.notify_all();
  }
  if (size) terminal_->set_size(*size);
  if (count > 0) terminal_->changed.wake();
  if (!ends) return;
  move_output();
  leave();
  master_ = nullptr;
}

// What the sink does not take stays with the terminal, whose writers wait when it has no room.
void OutsideTerminal::move_output() {
  ByteQueue& output = terminal_->line.output;
  bool has_moved = false;
  while (!output.is_empty()) {
    const auto sunk = sink(output.bytes());
    if (sunk && *sunk == 0) break;
    output.drop(sunk ? *sunk : output.size());  // of a sink that is gone: nobody sees it
    has_moved = true;
  }
  if (has_moved) terminal_->changed.wake();
}

Try<size_t> OutsideTerminal::sink(std::span<const std::byte> bytes) {
  const size_t allowed = std::min<uint64_t>(bytes.size(), count_->limit_bytes - count_->bytes);
  if (allowed == 0) {
    if (!std::exchange(count_->was_reached, true) && count_->on_reached) count_->on_reached();
    return err(ENOSPC);
  }
  MEMBRANE_ASSIGN(const size_t count, sink_(bytes.first(allowed)));
  count_->bytes += count;
  return count;
}

size_t OutsideTerminal::held() {
  const std::scoped_lock lock(mutex_);
  return outside_.bytes.size();
}

void OutsideTerminal::stop() {
  const std::scoped_lock lock(mutex_);
  is_stopped_ = true;
  room_.notify_all();
}

}  // namespace membrane::linux
