// A Linux sandbox: an image, a command, its standard streams, limits, and a report of its run.
//
//   the caller's process ──pipes, one socket──► the kernel process ──► the platform's processes, in which guests run
//
// The kernel process is forked from the caller, which must have one thread then. It answers the guests'
// system calls, and ends when the command has ended, when a limit is reached, or when the caller's end of the
// socket is closed.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "linux/abi/determinism.h"
#include "linux/abi/limits_reached.h"

namespace membrane::linux {

class Command;  // live_computer.h
class LiveComputer;

struct TerminalSize {
  uint16_t columns = 80, rows = 24;
};

struct ComputerLimits {
  uint64_t memory_bytes = 2ull << 30;            // of all processes
  uint64_t disk_bytes = 1ull << 30;              // that the sandbox may write
  uint64_t output_bytes = 64u << 20;             // standard output and error together
  int most_tasks = 512;                          // threads of all processes
  std::optional<std::chrono::milliseconds> cpu;  // of all processes, for the sandbox's lifetime
  std::optional<std::chrono::milliseconds> wall;
};

// A directory of the owner's machine, visible to guests. `socket` is one end of a pair whose other end a
// DirectoryBroker serves.
struct MountedDirectory {
  std::string path;  // its path in the sandbox; created if missing
  int socket = -1;   // borrowed until create() returns
  bool is_writable = false;
};

struct Computer {
  std::string image;                     // path of an image file (linux/image/layer.h)
  std::vector<std::string> arguments;    // the program, by name or path, and its arguments
  std::vector<std::string> environment;  // NAME=VALUE
  std::string directory = "/root";
  std::string host_name = "membrane";
  uint32_t user = 0, group = 0;
  ComputerLimits limits;
  std::optional<TerminalSize> terminal = {};  // as of CommandSpec
  std::string platform = {};                  // as LiveSpec::platform
  // Makes its programs behave the same in every run: the clock is virtual, and random numbers come from a
  // seed.
  std::optional<Determinism> deterministic = {};
  int network = -1;  // as LiveSpec::network
  std::vector<MountedDirectory> directories = {};
};

enum class ComputerEnd : uint8_t {
  kNotStarted,  // its program does not exist, or is not a program
  kExited,
  kSignalled,
  kTimedOut,
  kOutOfOutput,
  kOutOfMemory,
  kOutOfCpu,
  kCancelled,
  kFailed
};

struct ComputerReport {
  ComputerEnd end = ComputerEnd::kFailed;
  int status = 0;      // the exit code of kExited and kNotStarted, the signal of kSignalled
  std::string reason;  // for kFailed and kNotStarted: what failed; for the former also a fix
  std::string platform;
  uint64_t output_bytes = 0, memory_peak_bytes = 0;
  std::vector<std::string> missing_walls;  // walls that this machine refuses, and why
  double start_us = 0, run_us = 0;         // until the command's first instruction; from there to its end
  LimitsReached reached = {};              // while the command ran
  uint64_t preemptions = 0;                // if deterministic: how often it was not (Kernel::preemptions())
  std::map<std::string, uint64_t> absent_calls;  // unimplemented system calls, with counts
};

// The exit status that shells use for a program that cannot be started: 127 where it does not exist, 126
// where it is not a program or may not be run. Nothing where the program is not at fault.
std::optional<int> status_of_unstarted(const Error& error);

struct ComputerStreams {
  int input = -1;  // read on demand; -1: none
  std::function<void(std::string_view)> on_output, on_error;
  // As in LiveSpec.
  std::function<Status()> on_forked = {};
  // Called when the kernel process exists, before it starts the command: from then on the caller may have
  // threads. May be null.
  std::function<void()> on_made = {};
  // Called when the command has started; the result is destroyed before the command is.
  std::function<std::shared_ptr<void>(Command&)> accompany = {};
  // Called when the command has ended, before its sandbox does; not when the sandbox is lost.
  std::function<void(LiveComputer&)> at_end = {};
};

// Runs it to its end. Polls `cancelled`. The caller's process must have one thread. Errors: kNotFound for a
// missing image; kUnsupported where no platform can be started; kInvalidArgument for a missing working
// directory.
Result<ComputerReport> run_computer(const Computer& computer, const ComputerStreams& streams,
                                    const std::function<bool()>& cancelled);

}  // namespace membrane::linux
