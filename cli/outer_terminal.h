// The terminal that this process was started on, while a command of a sandbox uses it.
#pragma once

#include <signal.h>
#include <termios.h>

#include <atomic>
#include <memory>
#include <string_view>
#include <thread>

#include "base/result.h"
#include "linux/platform/trap/host_file.h"
#include "linux/sandbox/live_computer.h"

namespace membrane::cli {

// Passes every key to the sandbox, and the sandbox's output to the terminal unchanged. The destructor
// restores the terminal.
class OuterTerminal {
 public:
  // Takes over standard input's terminal. Signals that concern a terminal are blocked from here on in this
  // thread and those that it starts. `cancelled` is set when somebody asks this process to end. Errors:
  // kInvalidArgument when standard input is not a terminal.
  static Result<std::unique_ptr<OuterTerminal>> take(std::atomic<bool>& cancelled);
  ~OuterTerminal();
  OuterTerminal(const OuterTerminal&) = delete;
  OuterTerminal& operator=(const OuterTerminal&) = delete;

  [[nodiscard]] static linux::TerminalSize size();
  // The command is told of size changes as long as the result exists.
  [[nodiscard]] std::shared_ptr<void> accompany(linux::Command& command);
  static void write(std::string_view bytes);

 private:
  explicit OuterTerminal(std::atomic<bool>& cancelled) : cancelled_(cancelled) {}
  class Watch;
  void make_raw() const;
  void restore() const;
  void stop_and_continue() const;

  std::atomic<bool>& cancelled_;
  termios before_ = {};
  sigset_t mask_before_ = {};
};

}  // namespace membrane::cli
