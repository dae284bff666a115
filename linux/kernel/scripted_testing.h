// A kernel whose guests are functions of the test: on its platform, a script makes the next system call of
// each running thread. Memory is real as far as a kernel sees it: protected pages, backing files, copies for
// forks.
#pragma once

#include <array>
#include <cstring>
#include <deque>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "linux/kernel/kernel.h"
#include "linux/kernel/memory.h"

namespace membrane::linux {

class ScriptedPlatform;

class ScriptedSpace final : public Space {
 public:
  void map(uint64_t address, uint64_t length, int protection, const Backing& backing) override;
  void unmap(uint64_t address, uint64_t length) override;
  void protect(uint64_t address, uint64_t length, int protection) override;
  void move(uint64_t from, uint64_t length, uint64_t to, uint64_t new_length) override;
  void discard(uint64_t address, uint64_t length) override;
  void clear() override { areas_.clear(); }
  size_t read(uint64_t address, std::span<std::byte> bytes) override;
  size_t write(uint64_t address, std::span<const std::byte> bytes) override;
  size_t poke(uint64_t address, std::span<const std::byte> bytes) override;
  uint64_t resident_bytes() override;
  std::vector<PageRun> own_pages(uint64_t address, uint64_t length) override;
  [[nodiscard]] std::shared_ptr<ScriptedSpace> copy() const { return std::make_shared<ScriptedSpace>(*this); }
  // Accesses fail after that many bytes were moved: no call should move gigabytes.
  uint64_t moves_at_most = 256u << 20;

 private:
  using Page = std::array<std::byte, kPage>;
  struct Area {
    uint64_t end = 0;
    int protection = 0;
    std::shared_ptr<int> fd;  // a duplicate; nullptr: zeros
    uint64_t offset = 0;
    bool is_shared = false;
    std::map<uint64_t, Page> pages;  // touched pages, by address; none of a shared file
  };
  void split_at(uint64_t address);
  Area* area_at(uint64_t address, uint64_t& start);
  template <typename Act>
  size_t each_piece(uint64_t address, size_t size, int protection, const Act& act);
  size_t put(uint64_t address, std::span<const std::byte> bytes, int protection);
  std::map<uint64_t, Area> areas_;
};

class ScriptedThread final : public Thread {
 public:
  ScriptedThread(ScriptedPlatform& platform, std::shared_ptr<Space> space)
      : platform_(platform), space_(std::move(space)) {}
  ~ScriptedThread() override;
  [[nodiscard]] const std::shared_ptr<Space>& space() const override { return space_; }
  void resume() override;
  void interrupt() override {}
  std::vector<std::byte> vector_state() override { return {}; }
  Done set_vector_state(std::span<const std::byte>) override { return {}; }
  Try<std::unique_ptr<Thread>> clone_thread() override;
  Try<std::unique_ptr<Thread>> fork() override;

  // A system call, as a script makes it.
  void call(uint64_t number, std::initializer_list<uint64_t> arguments = {});
  // The result of the previous call.
  [[nodiscard]] int64_t result() const { return static_cast<int64_t>(registers.rax); }
  template <typename T>
  T get(uint64_t address) {
    T value{};
    space_->read(address, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  template <typename T>
  void put(uint64_t address, const T& value) {
    space_->poke(address, std::as_bytes(std::span(&value, 1)));
  }
  void put_text(uint64_t address, std::string_view text) {
    space_->poke(address, std::as_bytes(std::span(text)));
    put(address + text.size(), '\0');
  }

 private:
  ScriptedPlatform& platform_;
  std::shared_ptr<Space> space_;
};

class ScriptedPlatform final : public Platform {
 public:
  [[nodiscard]] std::string_view name() const override { return "test"; }
  [[nodiscard]] uint64_t lowest() const override { return 0x10000; }
  [[nodiscard]] uint64_t highest() const override { return uint64_t{1} << 46; }
  Try<std::unique_ptr<Thread>> start() override {
    return std::make_unique<ScriptedThread>(*this, std::make_shared<ScriptedSpace>());
  }
  Thread* wait(std::optional<std::chrono::steady_clock::time_point> deadline) override;
  void wake() override {}

  // Makes the next call of a running thread, with thread.call(). It is called in the order in which the
  // threads became ready.
  std::function<void(ScriptedThread&)> script;

 private:
  friend class ScriptedThread;
  std::deque<ScriptedThread*> running_;
};

// A kernel on such a platform, with an empty file system that has /proc, /dev and the programs /program and /other, which do what the script says.
struct ScriptedKernel {
  static constexpr uint64_t kScratch = 0x10000000, kScratchBytes = 16 * kPage;
  explicit ScriptedKernel(KernelLimits limits = {});
  // Runs the script in a process of its own until that has ended; returns its wait status.
  // After this many turns of the kernel's loop, the process gets SIGKILL.
  int run(std::function<void(ScriptedThread&)> script, Credentials who = {},
          uint64_t most_turns = UINT64_MAX);

  ScriptedPlatform* platform;  // the kernel's
  std::unique_ptr<Kernel> kernel;
};

// Makes calls one after another: each step receives the previous call's result. After the last one the
// process ends with 0.
std::function<void(ScriptedThread&)> steps(std::vector<std::function<void(ScriptedThread&)>> all);

}  // namespace membrane::linux
