// eventfd, timerfd, signalfd, pidfd: files that only report events.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <deque>

#include "linux/files/caller_testing.h"
#include "linux/files/event_file.h"
#include "linux/files/process_file.h"
#include "linux/files/signal_file.h"
#include "linux/files/timer_file.h"

namespace membrane::linux {
namespace {

Try<uint64_t> read_number(File& file, Caller& caller) {
  uint64_t number = 0;
  MemoryTarget target(std::as_writable_bytes(std::span(&number, 1)));
  MEMBRANE_TRY(file.read(caller, target));
  return number;
}

Try<size_t> write_number(File& file, Caller& caller, uint64_t number) {
  MemorySource source(std::as_bytes(std::span(&number, 1)));
  return file.write(caller, source);
}

TEST(EventFile, CountsAndIsReadAsAWhole) {
  FakeCaller caller;
  auto file = make_event_file(3, EFD_NONBLOCK).value();
  CountingWaiter waiter;
  file->join(waiter);
  EXPECT_EQ(file->flags, O_RDWR | O_NONBLOCK);
  EXPECT_EQ(write_number(*file, caller, 4).value(), 8u);
  EXPECT_EQ(waiter.wakes, 1);
  EXPECT_EQ(read_number(*file, caller).value(), 7u);
  EXPECT_EQ(read_number(*file, caller).error(), EAGAIN);
  EXPECT_EQ(file->ready(), POLLOUT | POLLWRNORM);
  EXPECT_EQ(read_text(*file, caller, 7), "error 22");
}

TEST(EventFile, IsASemaphore) {
  FakeCaller caller;
  auto file = make_event_file(2, EFD_SEMAPHORE).value();
  EXPECT_EQ(read_number(*file, caller).value(), 1u);
  EXPECT_EQ(read_number(*file, caller).value(), 1u);
  EXPECT_EQ(read_number(*file, caller).error(), EAGAIN);
}

TEST(EventFile, HoldsNoMoreThanFits) {
  FakeCaller caller;
  auto file = make_event_file(0, 0).value();
  EXPECT_EQ(write_number(*file, caller, UINT64_MAX).error(), EINVAL);
  EXPECT_TRUE(write_number(*file, caller, UINT64_MAX - 1));
  EXPECT_EQ(write_number(*file, caller, 1).error(), EAGAIN);
  EXPECT_EQ(file->ready(), POLLIN | POLLRDNORM);
  EXPECT_EQ(make_event_file(0, 1 << 20).error(), EINVAL);
}

constexpr itimerspec every(long first_ns, long interval_ns) {
  return {.it_interval = {0, interval_ns}, .it_value = {0, first_ns}};
}

TEST(TimerFile, ExpiresOnce) {
  FakeCaller caller;
  FakeTimers timers;
  auto file = make_timer_file(timers, CLOCK_MONOTONIC, 0).value();
  CountingWaiter waiter;
  file->join(waiter);
  EXPECT_EQ(read_number(*file, caller).error(), EAGAIN);
  EXPECT_TRUE(file->set(0, every(100, 0)));
  timers.advance(40);
  EXPECT_EQ(waiter.wakes, 0);
  EXPECT_EQ(file->get().it_value.tv_nsec, 60);
  timers.advance(60);
  EXPECT_EQ(waiter.wakes, 1);
  EXPECT_EQ(file->ready(), POLLIN | POLLRDNORM);
  EXPECT_EQ(read_number(*file, caller).value(), 1u);
  EXPECT_EQ(file->ready(), 0);
  EXPECT_EQ(file->get().it_value.tv_nsec, 0);
  EXPECT_EQ(timers.armed(), 0u);
}

TEST(TimerFile, CountsWhatWasNotReadAndSetsOneTimer) {
  FakeCaller caller;
  FakeTimers timers;
  auto file = make_timer_file(timers, CLOCK_REALTIME, 0).value();
  EXPECT_TRUE(file->set(0, every(10, 5)));
  timers.advance(27);  // at 10, 15, 20, 25
  EXPECT_EQ(timers.armed(), 0u);
  EXPECT_EQ(read_number(*file, caller).value(), 4u);
  EXPECT_EQ(timers.armed(), 1u);
  EXPECT_EQ(file->get().it_value.tv_nsec, 3);
}

TEST(TimerFile, IsSetToAnAbsoluteTimeAndOff) {
  FakeTimers timers;
  auto file = make_timer_file(timers, CLOCK_MONOTONIC, 0).value();
  EXPECT_TRUE(file->set(TFD_TIMER_ABSTIME, {.it_interval = {}, .it_value = {1, 500}}));
  EXPECT_EQ(file->set(0, {}).value().it_value.tv_nsec, 500);
  EXPECT_EQ(timers.armed(), 0u);
  EXPECT_EQ(file->set(0, {.it_interval = {}, .it_value = {0, 1'000'000'000}}).error(), EINVAL);
  EXPECT_EQ(file->set(64, {}).error(), EINVAL);
  EXPECT_TRUE(file->set(0, {.it_interval = {INT64_MAX, 0}, .it_value = {INT64_MAX, 0}}));  // never
  EXPECT_TRUE(
      file->set(TFD_TIMER_ABSTIME, {.it_interval = {INT64_MAX, 1}, .it_value = {0, 1}}));  // long past
  EXPECT_EQ(file->ready(), POLLIN | POLLRDNORM);
  EXPECT_EQ(make_timer_file(timers, CLOCK_PROCESS_CPUTIME_ID, 0).error(), EINVAL);
}

class FakeSignals final : public Signals {
 public:
  std::deque<siginfo_t> pending;
  WaitQueue queue;
  bool has_pending(uint64_t set) override {
    return std::ranges::any_of(pending, [&](const siginfo_t& each) { return is_in(each, set); });
  }
  std::optional<siginfo_t> take_pending(uint64_t set) override {
    const auto at = std::ranges::find_if(pending, [&](const siginfo_t& each) { return is_in(each, set); });
    if (at == pending.end()) return {};
    const siginfo_t info = *at;
    pending.erase(at);
    return info;
  }
  WaitQueue* arrivals() override { return &queue; }
  void send(int signal, int code = SI_USER) {
    siginfo_t info = {};
    info.si_signo = signal;
    info.si_code = code;
    info.si_pid = 7;
    pending.push_back(info);
    queue.wake();
  }

 private:
  static bool is_in(const siginfo_t& info, uint64_t set) { return (set >> (info.si_signo - 1) & 1) != 0; }
};

TEST(SignalFile, GivesTheSignalsOfItsSet) {
  FakeCaller caller;
  FakeSignals signals;
  auto file =
      make_signal_file(signals, uint64_t{1} << (SIGUSR1 - 1) | uint64_t{1} << (SIGKILL - 1), 0).value();
  CountingWaiter waiter;
  file->join(waiter);
  EXPECT_EQ(read_text(*file, caller), "error 11");
  signals.send(SIGUSR2);
  EXPECT_EQ(file->ready(), 0);
  signals.send(SIGUSR1);
  signals.send(SIGKILL);
  EXPECT_EQ(waiter.wakes, 3);
  EXPECT_EQ(file->ready(), POLLIN | POLLRDNORM);
  EXPECT_EQ(read_text(*file, caller, 127), "error 22");
  const std::string got = read_text(*file, caller, 1000);
  ASSERT_EQ(got.size(), sizeof(signalfd_siginfo));
  signalfd_siginfo record;
  std::memcpy(&record, got.data(), sizeof record);
  EXPECT_EQ(record.ssi_signo, static_cast<uint32_t>(SIGUSR1));
  EXPECT_EQ(record.ssi_pid, 7u);
  file->set_signals(uint64_t{1} << (SIGUSR2 - 1));
  EXPECT_EQ(waiter.wakes, 4);
  EXPECT_EQ(file->ready(), POLLIN | POLLRDNORM);
}

TEST(ProcessFile, IsReadableWhenTheProcessHasEnded) {
  FakeCaller caller;
  auto end = std::make_shared<ProcessEnd>(12);
  auto file = std::make_shared<ProcessFile>(end, 0);
  CountingWaiter waiter;
  file->join(waiter);
  EXPECT_EQ(file->ready(), 0);
  end->tell();
  EXPECT_EQ(waiter.wakes, 1);
  EXPECT_EQ(file->ready(), POLLIN | POLLRDNORM);
  EXPECT_EQ(file->end().process, 12);
  EXPECT_EQ(read_text(*file, caller), "error 22");
}

}  // namespace
}  // namespace membrane::linux
