// The terminal of a person outside the sandbox: what is typed comes from any thread, what the guests print goes to a sink. Its
// master is the kernel process's own; no guest can open it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "linux/files/outside.h"
#include "linux/files/pty.h"

namespace membrane::linux {

class OutsideTerminal final : private Waiter {
 public:
  static constexpr size_t kCapacity = 65536;  // bytes that were fed and that the terminal had no room for yet

  // `master` is what Terminals::make_master() gave; the terminal is unlocked. `wake` is called by any thread, and has the kernel
  // call after_wake() in its own.
  OutsideTerminal(std::shared_ptr<PtyMaster> master, OutsideOutput::Sink sink,
                  std::shared_ptr<OutputCount> count, std::function<void()> wake);
  ~OutsideTerminal() override;

  // -- from any thread
  // Returns how many bytes there was room for.
  size_t feed(std::span<const std::byte> bytes);
  // Waits until there is room; false when no guest will read again.
  bool wait_for_room();
  // The window has another size: the foreground group gets SIGWINCH.
  void resize(const winsize& size);
  // The outside is gone: the session of the terminal gets SIGHUP.
  void end();
  void has_room();  // the sink that was full is no longer

  // -- in the kernel's thread
  Try<FileRef> open();  // a slave, for the standard streams
  // For Kernel::Start: the controlling terminal of the first process, whose group is in the foreground.
  [[nodiscard]] const std::shared_ptr<Terminal>& terminal() const { return terminal_; }
  // nullptr after the end.
  [[nodiscard]] const std::shared_ptr<PtyMaster>& master() const { return master_; }
  // Moves what can be moved, in both directions.
  void after_wake();
  void stop();                  // no guest will read again: wait_for_room() ends
  [[nodiscard]] size_t held();  // bytes that were fed and that the terminal has not taken

 private:
  struct FromOutside {
    ByteQueue bytes;
    std::optional<winsize> size;
    bool has_ended = false;
  };
  void on_wake() override;
  void move_input();
  void move_output();
  Try<size_t> sink(std::span<const std::byte> bytes);

  std::shared_ptr<PtyMaster> master_;  // nullptr after the end
  const std::shared_ptr<Terminal> terminal_;
  const OutsideOutput::Sink sink_;
  const std::shared_ptr<OutputCount> count_;
  const std::function<void()> wake_;
  std::atomic<bool> is_woken_ = false;  // after_wake() is to come
  std::mutex mutex_;                    // of what follows
  std::condition_variable room_;
  FromOutside outside_;
  bool is_stopped_ = false;
};

}  // namespace membrane::linux
