// A program of this machine that runs to completion, with a deadline.
//
// It is started by posix_spawn, in a process group of its own, with /dev/null as its input. Its output is kept up to
// a bound; the rest is read and dropped, so that the program never blocks on its output. At the deadline, or when
// the caller says so, its whole process group is killed.
//
// Arguments are passed as they are: no shell interprets them.
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
  std::vector<std::string> arguments;  // the first is searched in PATH, unless it contains a "/"
  std::string directory = {};          // the working directory; "": that of this process
  // Added to this process's environment, or replacing variables in it.
  std::vector<std::pair<std::string, std::string>> environment = {};
  std::chrono::milliseconds most_time = std::chrono::minutes(10);
  size_t most_output_bytes = 64u << 10;  // of both streams together; the last bytes are kept
  // Called about ten times per second; a failure ends the process. May be null.
  std::function<Status()> watch = {};
};

struct SubprocessEnd {
  int exit_code = 0;   // 128 plus the signal's number if a signal ended it
  std::string output;  // the end of its output on both streams, interleaved as received
};

// Runs the program to completion. Errors: kNotFound when there is no such program; kTimedOut; kUnavailable when the
// system refuses; those of `watch`. After an error no process of the group is left, except those that left the
// group.
Result<SubprocessEnd> run_subprocess(const Subprocess& process);

}  // namespace membrane
