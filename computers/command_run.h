// One command in a Linux sandbox that lives on, from its start to its report: its input, what it prints, its limits.
//
// Threads: any; run_command() waits for the command's end. What it is given is called on its own thread and on one of the computer's,
// never after it has returned.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "linux/sandbox/live_computer.h"
#include "policy/policy.h"
#include "sandbox/report.h"
#include "sandbox/sandbox.h"

namespace membrane::computers {

struct CommandRun {
  linux::CommandSpec spec;
  policy::Limits limits;  // output_bytes and wall_ms are this command's
  std::string input = {};
  // Input that comes while it runs, in the place of `input`; may be null.
  std::function<sandbox::InputPiece(std::chrono::milliseconds)> read_input = {};
  // Makes a read_input() that waits return: nobody will read more. May be null.
  std::function<void()> stop_reading = {};
  // Hear what is written, which is in the report, too: UTF-8, in whole characters. May be null.
  std::function<void(std::string_view)> on_output = {}, on_error = {};
  bool is_exact = false;  // what is no UTF-8 is told as it is; else as U+FFFD
  // It has begun: who has this can send it signals and resize its terminal. May be null.
  std::function<void(std::shared_ptr<linux::Command>)> on_begun = {};
  // Asked now and then; true ends it. May be null.
  std::function<bool()> is_cancelled = {};
};

// What goes wrong is an outcome of the report, as in sandbox/sandbox.h.
sandbox::Report run_command(linux::LiveComputer& computer, CommandRun run);

}  // namespace membrane::computers
