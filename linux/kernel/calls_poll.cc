// Waiting for files: poll, ppoll, select, pselect6.
#include <poll.h>
#include <sys/select.h>

#include <algorithm>
#include <vector>

#include "linux/abi/times.h"
#include "linux/kernel/file_calls.h"
#include "linux/kernel/kernel.h"
#include "linux/kernel/signals.h"
#include "linux/kernel/waiting_calls.h"

namespace membrane::linux {
namespace {

using std::chrono::nanoseconds;

}  // namespace

// -- shared by calls that wait

TimeLimit limit_of_milliseconds(Call& call, int timeout_ms) {
  if (timeout_ms < 0) return {};
  if (call.deadline()) return {call.deadline(), false};
  return {call.kernel.steady_now() + std::chrono::milliseconds(timeout_ms), timeout_ms == 0};
}

Try<TimeLimit> limit_at(Call& call, uint64_t timespec_at) {
  if (timespec_at == 0) return Try<TimeLimit>();
  if (call.deadline()) return TimeLimit{call.deadline(), false};
  MEMBRANE_ASSIGN(const auto time, call.get<timespec>(timespec_at));
  MEMBRANE_ASSIGN(const auto deadline, deadline_of(call.kernel, time, false, CLOCK_MONOTONIC));
  return TimeLimit{deadline, time.tv_sec == 0 && time.tv_nsec == 0};
}

int64_t wait_within(Call& call, const TimeLimit& limit) {
  if (!limit.deadline) return call.wait(OnSignal::kInterrupt);
  return call.wait_until(*limit.deadline, OnSignal::kInterrupt);
}

nanoseconds rest_of(Call& call, const TimeLimit& limit) {
  if (!limit.deadline) return nanoseconds(0);
  return std::max(nanoseconds(0), nanoseconds(*limit.deadline - call.kernel.steady_now()));
}

Done use_mask_during_call(Call& call, uint64_t mask_at, uint64_t size) {
  if (mask_at == 0) return {};
  if (size != sizeof(SignalSet)) return err(EINVAL);
  if (call.is_again()) return {};
  MEMBRANE_ASSIGN(const auto mask, call.get<SignalSet>(mask_at));
  set_mask_during_call(call.task, mask);
  return {};
}

// -- poll

namespace {

// Fills in what is ready; returns the number of ready descriptors.
int64_t look_at_all(Call& call, std::vector<pollfd>& asked) {
  int64_t count = 0;
  for (pollfd& each : asked) {
    each.revents = 0;
    if (each.fd < 0) continue;
    const auto file = open_file(call, each.fd);
    const int wanted = each.events | POLLERR | POLLHUP;
    each.revents = static_cast<short>(file ? (*file)->ready() & wanted : POLLNVAL);
    if (each.revents != 0) ++count;
  }
  return count;
}

int64_t poll_until(Call& call, const TimeLimit& limit) {
  const uint64_t at = call.arg(0);
  const auto count = static_cast<uint32_t>(call.arg(1));
  if (count > file_limit(call)) return -EINVAL;
  std::vector<pollfd> asked(count);
  CALL_TRY(call.task.read_memory(at, std::as_writable_bytes(std::span(asked))));
  const int64_t ready = look_at_all(call, asked);
  if (ready == 0 && !limit.is_zero && !call.is_late()) {
    for (const pollfd& each : asked)
      if (each.fd >= 0)
        if (const auto file = open_file(call, each.fd)) call.join(**file);
    return wait_within(call, limit);
  }
  CALL_TRY(call.task.write_memory(at, std::as_bytes(std::span(asked))));
  return ready;
}

}  // namespace

int64_t sys_poll(Call& call) { return poll_until(call, limit_of_milliseconds(call, call.int_arg(2))); }

int64_t sys_ppoll(Call& call) {
  CALL_ASSIGN(const TimeLimit limit, limit_at(call, call.arg(2)));
  CALL_TRY(use_mask_during_call(call, call.arg(3), call.arg(4)));
  const int64_t ready = poll_until(call, limit);
  // As on Linux, a remaining time that cannot be written does not change the result.
  if (ready != kWaits && call.arg(2) != 0)
    static_cast<void>(call.put(call.arg(2), timespec_of(rest_of(call, limit))));
  return ready;
}

// -- select

namespace {

// Three sets of descriptors in guest memory, any of which may be missing.
class Sets {
 public:
  static Try<Sets> of(Call& call, uint32_t descriptors, const std::array<uint64_t, 3>& addresses) {
    Sets sets;
    sets.addresses_ = addresses;
    sets.count_ = descriptors;
    for (size_t i = 0; i < 3; ++i) {
      sets.words_[i].resize(addresses[i] != 0 ? (size_t{descriptors} + 63) / 64 : 0);
      MEMBRANE_TRY(call.task.read_memory(addresses[i], std::as_writable_bytes(std::span(sets.words_[i]))));
    }
    return sets;
  }
  [[nodiscard]] uint32_t count() const { return count_; }
  [[nodiscard]] bool has(size_t set, uint32_t descriptor) const {
    return !words_[set].empty() && (words_[set][descriptor / 64] >> (descriptor % 64) & 1) != 0;
  }
  [[nodiscard]] bool has_any(uint32_t descriptor) const {
    return has(0, descriptor) || has(1, descriptor) || has(2, descriptor);
  }
  void remove(size_t set, uint32_t descriptor) {
    if (!words_[set].empty()) words_[set][descriptor / 64] &= ~(uint64_t{1} << (descriptor % 64));
  }
  Done tell(Call& call) const {
    for (size_t i = 0; i < 3; ++i)
      MEMBRANE_TRY(call.task.write_memory(addresses_[i], std::as_bytes(std::span(words_[i]))));
    return {};
  }

 private:
  std::array<uint64_t, 3> addresses_ = {};
  std::array<std::vector<uint64_t>, 3> words_;  // empty: missing
  uint32_t count_ = 0;
};

constexpr std::array<int, 3> kWanted = {POLLIN | POLLRDNORM | POLLRDBAND | POLLHUP | POLLERR,
                                        POLLOUT | POLLWRNORM | POLLWRBAND | POLLERR, POLLPRI};

// Removes what is not ready; returns the number of bits left. Errors: EBADF.
Try<int64_t> look_at_sets(Call& call, Sets& sets) {
  int64_t count = 0;
  for (uint32_t descriptor = 0; descriptor < sets.count(); ++descriptor) {
    if (!sets.has_any(descriptor)) continue;
    MEMBRANE_ASSIGN(const FileRef file, open_file(call, static_cast<int>(descriptor)));
    const int ready = file->ready();
    for (size_t set = 0; set < 3; ++set) {
      if (!sets.has(set, descriptor)) continue;
      if ((ready & kWanted[set]) != 0) ++count;
      else sets.remove(set, descriptor);
    }
  }
  return count;
}

int64_t select_until(Call& call, const TimeLimit& limit) {
  const int descriptors = call.int_arg(0);
  if (descriptors < 0) return -EINVAL;
  const auto count =
      static_cast<uint32_t>(std::min<uint64_t>(static_cast<uint32_t>(descriptors), file_limit(call)));
  CALL_ASSIGN(const Sets asked, Sets::of(call, count, {call.arg(1), call.arg(2), call.arg(3)}));
  Sets ready = asked;
  CALL_ASSIGN(const int64_t bits, look_at_sets(call, ready));
  if (bits == 0 && !limit.is_zero && !call.is_late()) {
    for (uint32_t descriptor = 0; descriptor < count; ++descriptor)
      if (asked.has_any(descriptor))
        if (const auto file = open_file(call, static_cast<int>(descriptor))) call.join(**file);
    return wait_within(call, limit);
  }
  CALL_TRY(ready.tell(call));
  return bits;
}

struct Micros {
  int64_t s = 0, us = 0;
};

Try<TimeLimit> limit_at_micros(Call& call, uint64_t address) {
  if (address == 0) return Try<TimeLimit>();
  if (call.deadline()) return TimeLimit{call.deadline(), false};
  MEMBRANE_ASSIGN(auto time, call.get<Micros>(address));
  if (time.s < 0 || time.us < 0) return err(EINVAL);
  // Values of more than a second of microseconds are allowed.
  const int64_t seconds = time.us / 1'000'000;
  if (time.s > INT64_MAX - seconds) return err(EINVAL);
  const timespec exact = {time.s + seconds, time.us % 1'000'000 * 1000};
  MEMBRANE_ASSIGN(const auto deadline, deadline_of(call.kernel, exact, false, CLOCK_MONOTONIC));
  return TimeLimit{deadline, exact.tv_sec == 0 && exact.tv_nsec == 0};
}

struct MaskArgument {
  uint64_t address = 0, size = 0;
};

}  // namespace

int64_t sys_select(Call& call) {
  CALL_ASSIGN(const TimeLimit limit, limit_at_micros(call, call.arg(4)));
  const int64_t ready = select_until(call, limit);
  if (ready != kWaits && call.arg(4) != 0) {
    const int64_t rest = rest_of(call, limit).count() / 1000;
    static_cast<void>(call.put(call.arg(4), Micros{rest / 1'000'000, rest % 1'000'000}));
  }
  return ready;
}

int64_t sys_pselect6(Call& call) {
  CALL_ASSIGN(const TimeLimit limit, limit_at(call, call.arg(4)));
  if (call.arg(5) != 0) {
    CALL_ASSIGN(const auto mask, call.get<MaskArgument>(call.arg(5)));
    CALL_TRY(use_mask_during_call(call, mask.address, mask.size));
  }
  const int64_t ready = select_until(call, limit);
  if (ready != kWaits && call.arg(4) != 0)
    static_cast<void>(call.put(call.arg(4), timespec_of(rest_of(call, limit))));
  return ready;
}

}  // namespace membrane::linux
