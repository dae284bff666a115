// One command in a long-lived Linux sandbox, from its start to its report: its input, its output, its limits.
//
// Threads: any; run_command() waits for the command's end. Callbacks run on its own thread and on one of the
// computer's, never after it has returned.
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
  policy::Limits limits;  // output_bytes and wall_ms apply to this command
  std::string input = {};
  // Provides input while it runs, instead of `input`; may be null.
  std::function<sandbox::InputPiece(std::chrono::milliseconds)> read_input = {};
  // Makes a waiting read_input() return: nobody will read more. May be null.
  std::function<void()> stop_reading = {};
  // Receive the output, which is also in the report: UTF-8, in whole characters. May be null.
  std::function<void(std::string_view)> on_output = {}, on_error = {};
  bool is_exact = false;  // bytes that are not UTF-8 are passed on unchanged; otherwise as U+FFFD
  // Called when it has started: the handle can send it signals and resize its terminal. May be null.
  std::function<void(std::shared_ptr<linux::Command>)> on_begun = {};
  // Polled; true ends it. May be null.
  std::function<bool()> is_cancelled = {};
};

// Failures are outcomes of the report, as in sandbox/sandbox.h.
sandbox::Report run_command(linux::LiveComputer& computer, CommandRun run);

}  // namespace membrane::computers
