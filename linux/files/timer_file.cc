#include "linux/files/timer_file.h"

#include <fcntl.h>
#include <sys/timerfd.h>

#include <algorithm>

#include "linux/abi/times.h"
#include "linux/files/anonymous_node.h"

namespace membrane::linux {
namespace {

using std::chrono::nanoseconds;
constexpr int64_t kSecond = 1'000'000'000;
constexpr nanoseconds kNever{INT64_MAX};

// Errors: EINVAL. Times beyond the range of the clock are clamped to its last time.
Try<nanoseconds> nanoseconds_of(const timespec& time) {
  if (time.tv_sec < 0 || time.tv_nsec < 0 || time.tv_nsec >= kSecond) return err(EINVAL);
  if (time.tv_sec >= INT64_MAX / kSecond) return kNever;
  return nanoseconds(time.tv_sec * kSecond + time.tv_nsec);
}

nanoseconds sum(nanoseconds a, nanoseconds b) { return a > kNever - b ? kNever : a + b; }

}  // namespace

TimerFile::TimerFile(Timers& timers, int clock, NodeRef node)
    : timers_(timers), clock_(clock), node_(std::move(node)) {
  flags = O_RDWR;
}

nanoseconds TimerFile::now() const { return nanoseconds_of(timers_.now(clock_)).value_or(nanoseconds(0)); }

void TimerFile::count_expirations() {
  const nanoseconds time = now();
  if (!next_ || time < *next_) return;
  if (interval_ == nanoseconds(0)) {
    ++count_;
    next_.reset();
    return;
  }
  const int64_t times = (time - *next_) / interval_ + 1;
  count_ += static_cast<uint64_t>(times);
  const int64_t last = times - 1;  // sums of past times do not overflow
  next_ = sum(*next_ + last * interval_, interval_);
}

// The kernel's timer is set for one expiration at a time: reading or expiring sets the next.
void TimerFile::arm() {
  alive_ = nullptr;
  if (!next_ || count_ > 0) return;
  const nanoseconds rest = std::max(nanoseconds(0), *next_ - now());
  const auto steady = timers_.steady_now();
  const nanoseconds left = std::chrono::steady_clock::time_point::max() - steady;
  if (rest >= left) return;
  alive_ = std::make_shared<char>();
  timers_.at(steady + rest, alive_, [this] {
    count_expirations();
    if (count_ == 0) return arm();  // the clocks may differ by nanoseconds
    expired_.wake();
  });
}

Try<size_t> TimerFile::read(Caller&, Buffer& to) {
  if (to.size() < sizeof count_) return err(EINVAL);
  count_expirations();
  if (count_ == 0) return err(EAGAIN);
  MEMBRANE_ASSIGN(const size_t done, to.put(std::as_bytes(std::span(&count_, 1))));
  if (done < sizeof count_) return err(EFAULT);
  count_ = 0;
  arm();
  return done;
}

short TimerFile::ready() {
  count_expirations();
  return count_ > 0 ? POLLIN | POLLRDNORM : 0;
}

Try<itimerspec> TimerFile::set(int how, const itimerspec& to) {
  if ((how & ~(TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET)) != 0) return err(EINVAL);
  MEMBRANE_ASSIGN(const nanoseconds first, nanoseconds_of(to.it_value));
  MEMBRANE_ASSIGN(const nanoseconds interval, nanoseconds_of(to.it_interval));
  const itimerspec before = get();
  count_ = 0;
  next_.reset();
  interval_ = interval;
  if (first != nanoseconds(0)) next_ = (how & TFD_TIMER_ABSTIME) != 0 ? first : sum(now(), first);
  arm();
  return before;
}

itimerspec TimerFile::get() {
  count_expirations();
  itimerspec now_set = {};
  now_set.it_interval = timespec_of(interval_);
  if (next_) now_set.it_value = timespec_of(std::max(nanoseconds(1), *next_ - now()));
  return now_set;
}

Try<std::shared_ptr<TimerFile>> make_timer_file(Timers& timers, int clock, int flags) {
  if ((flags & ~(TFD_NONBLOCK | TFD_CLOEXEC)) != 0) return err(EINVAL);
  const bool is_real = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_ALARM;
  const bool is_steady = clock == CLOCK_MONOTONIC || clock == CLOCK_BOOTTIME || clock == CLOCK_BOOTTIME_ALARM;
  if (!is_real && !is_steady) return err(EINVAL);
  std::shared_ptr<TimerFile> file(new TimerFile(timers, is_real ? CLOCK_REALTIME : CLOCK_MONOTONIC,
                                                make_anonymous_node(AnonymousDevice::kOthers, 0600)));
  file->flags |= flags & TFD_NONBLOCK;
  return file;
}

}  // namespace membrane::linux
