// A caller for tests of files: a process with a little memory that records the signals sent to it.
#pragma once

#include <cstring>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "linux/files/file.h"
#include "linux/files/memory_buffer.h"
#include "linux/files/services.h"

namespace membrane::linux {

class FakeCaller : public Caller {
 public:
  static constexpr uint64_t kMemory = 0x10000;  // the start of its memory
  std::vector<std::byte> memory = std::vector<std::byte>(65536);
  Credentials who = {};
  int process = 100, group = 100, its_session = 100;
  std::vector<std::pair<int, int>> group_signals;  // group, signal
  std::vector<int> own_signals;
  std::set<int> ignored;
  bool orphaned = false;
  FileRef its_terminal;

  [[nodiscard]] const Credentials& credentials() const override { return who; }
  [[nodiscard]] int process_id() const override { return process; }
  [[nodiscard]] int process_group() const override { return group; }
  [[nodiscard]] int session() const override { return its_session; }
  Done read_memory(uint64_t address, std::span<std::byte> bytes) override {
    if (!has(address, bytes.size())) return err(EFAULT);
    if (!bytes.empty()) std::memcpy(bytes.data(), memory.data() + (address - kMemory), bytes.size());
    return {};
  }
  Done write_memory(uint64_t address, std::span<const std::byte> bytes) override {
    if (!has(address, bytes.size())) return err(EFAULT);
    if (!bytes.empty()) std::memcpy(memory.data() + (address - kMemory), bytes.data(), bytes.size());
    return {};
  }
  void signal_group(int to, int signal) override { group_signals.emplace_back(to, signal); }
  void signal_self(int signal) override { own_signals.push_back(signal); }
  bool ignores(int signal) override { return ignored.contains(signal); }
  bool is_orphaned() override { return orphaned; }
  FileRef terminal() override { return its_terminal; }
  void set_terminal(const FileRef& terminal) override { its_terminal = terminal; }
  int session_of_group(int of) override { return of < 1000 ? its_session : 0; }

  // An ioctl with a value that it reads, writes, or both.
  template <typename T>
  Try<int64_t> ioctl(File& file, uint64_t request, T& value) {
    if (auto put_it = put(kMemory, value); !put_it) return err(put_it.error());
    auto answer = file.ioctl(*this, request, kMemory);
    if (auto got = get<T>(kMemory)) value = *got;
    return answer;
  }

 private:
  [[nodiscard]] bool has(uint64_t address, size_t size) const {
    return address >= kMemory && address - kMemory <= memory.size() &&
           size <= memory.size() - (address - kMemory);
  }
};

inline Try<size_t> write_text(File& file, Caller& caller, std::string_view text) {
  MemorySource source(text);
  return file.write(caller, source);
}
// The result of one read; "error N" for an error.
inline std::string read_text(File& file, Caller& caller, size_t most = 65536) {
  std::string text(most, '\0');
  MemoryTarget target(std::as_writable_bytes(std::span(text)));
  auto count = file.read(caller, target);
  if (!count) return "error " + std::to_string(count.error());
  text.resize(*count);
  return text;
}

// Records what the processes of a kernel are sent.
class FakeJobs final : public Jobs {
 public:
  std::vector<std::pair<int, int>> group_signals, process_signals;  // receiver, signal
  std::vector<int> lost;                                            // sessions
  void signal_group(int group, int signal) override { group_signals.emplace_back(group, signal); }
  void signal_process(int process, int signal) override { process_signals.emplace_back(process, signal); }
  void lose_terminal(int session) override { lost.push_back(session); }
};

// Clocks that stand still until a test advances them, and the timers that are then due.
class FakeTimers final : public Timers {
 public:
  int64_t now_ns = 1'000'000'000;
  [[nodiscard]] timespec now(int) const override { return {now_ns / 1'000'000'000, now_ns % 1'000'000'000}; }
  [[nodiscard]] std::chrono::steady_clock::time_point steady_now() const override {
    return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(now_ns));
  }
  void at(std::chrono::steady_clock::time_point, std::weak_ptr<void> alive,
          std::function<void()> act) override {
    timers_.emplace_back(std::move(alive), std::move(act));
  }
  [[nodiscard]] size_t armed() const {
    size_t count = 0;
    for (const auto& [alive, act] : timers_) count += alive.expired() ? 0 : 1;
    return count;
  }
  // Every timer acts, whatever its time: its setters look at the clock.
  void advance(int64_t by_ns) {
    now_ns += by_ns;
    for (auto& [alive, act] : std::exchange(timers_, {}))
      if (const auto held = alive.lock()) act();
  }

 private:
  std::vector<std::pair<std::weak_ptr<void>, std::function<void()>>> timers_;
};

// Counts how often it was woken.
class CountingWaiter final : public Waiter {
 public:
  int wakes = 0;
  void on_wake() override { ++wakes; }
};

}  // namespace membrane::linux
