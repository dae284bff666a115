// A program of this machine that runs to its end beside this one, with a deadline.
//
// It is started by posix_spawn, in a process group of its own, with /dev/null as its input. What it prints is read to a
// bound; what is beyond is read and dropped, so that the program never waits for a reader. At the deadline, and when the
// caller says so, its whole group is killed, by the id of the group.
//
// Its arguments reach it as they are: no shell reads them.
//
// Threads: any; each call has its own process.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace membrane {

struct Subprocess {
  std::vector<std::string> arguments;  // the first is looked for in PATH, unless it has a "/"
  std::string directory = {};          // where it runs; "": where this process does
  // Added to this process's environment, or in the place of what stands there.
  std::vector<std::pair<std::string, std::string>> environment = {};
  std::chrono::milliseconds most_time = std::chrono::minutes(10);
  size_t most_output_bytes = 64u << 10;  // of both streams together: the last ones are kept
  // Asked some ten times in a second; a failure ends the process. May be null.
  std::function<Status()> watch = {};
};

struct SubprocessEnd {
  int exit_code = 0;   // 128 and the signal's number, of one that a signal ended
  std::string output;  // the end of what it printed on both streams, as it came
};

// Runs it to its end. Errors: kNotFound when there is no such program; kTimedOut; kUnavailable for what the system
// refuses; those of `watch`. After an error no process of the group is left, but those that left the group.
Result<SubprocessEnd> run_subprocess(const Subprocess& process);

}  // namespace membrane
