// The part of a computer (computer.h) that runs in the kernel process.
#pragma once

#include "linux/sandbox/computer.h"

namespace membrane::linux {

// Descriptors of the kernel process: its ends of the pipes, and the control socket.
struct KernelStreams {
  int input = -1, output = -1, errors = -1, control = -1;
};

// Runs the command, writes the report to the control socket as JSON, and gives the process's exit code.
int run_kernel_process(const Computer& computer, const KernelStreams& streams);

// The report as it goes through the socket. A report of a kernel process is foreign data: errors are kInvalidInput.
std::string report_to_json(const ComputerReport& report);
Result<ComputerReport> report_from_json(std::string_view json);

}  // namespace membrane::linux
