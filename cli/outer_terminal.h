// The terminal that this process was started on, while a command of a sandbox has it.
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

// Every key goes to the sandbox, and what the sandbox prints comes out as it is. At its end the terminal is as it was.
class OuterTerminal {
 public:
  // Takes standard input's. The signals that concern a terminal are blocked from here on in this thread and those that it starts.
  // `cancelled` is set when somebody asks this process to end. Errors: kInvalidArgument when standard input is no terminal.
  static Result<std::unique_ptr<OuterTerminal>> take(std::atomic<bool>& cancelled);
  ~OuterTerminal();
  OuterTerminal(const OuterTerminal&) = delete;
  OuterTerminal& operator=(const OuterTerminal&) = delete;

  [[nodiscard]] static linux::TerminalSize size();
  // The command hears of another size as long as what this gives lives.
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
