#include "linux/kernel/call.h"

#include <algorithm>

#include "linux/kernel/kernel.h"
#include "linux/kernel/memory.h"

namespace membrane::linux {

uint64_t Call::arg(int i) const { return task.arguments[static_cast<size_t>(i)]; }

Try<std::string> Call::get_string(uint64_t address, size_t most) {
  std::string text;
  std::array<char, 256> piece;
  while (text.size() < most) {
    const uint64_t here = address + text.size();
    const size_t wanted = std::min({piece.size(), kPage - here % kPage, most - text.size()});
    const size_t got =
        task.thread->space()->read(here, std::as_writable_bytes(std::span(piece.data(), wanted)));
    const auto end = std::find(piece.data(), piece.data() + got, '\0');
    text.append(piece.data(), end);
    if (end != piece.data() + got) return text;
    if (got < wanted) return err(EFAULT);
  }
  return err(ENAMETOOLONG);
}

int64_t Call::wait(OnSignal on_signal) {
  task.waiting.is_interrupt = on_signal == OnSignal::kInterrupt;
  return kWaits;
}

int64_t Call::wait_until(std::chrono::steady_clock::time_point deadline, OnSignal on_signal) {
  if (!task.waiting.deadline) {
    task.waiting.deadline = deadline;
    kernel.arm_deadline(task);
  }
  return wait(on_signal);
}

bool Call::is_late() const { return task.waiting.deadline && *task.waiting.deadline <= kernel.steady_now(); }

}  // namespace membrane::linux
