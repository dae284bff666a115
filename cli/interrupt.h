// Ctrl-C during membrane run and membrane thaw: it stops the run, and then ends the command. Pressed three times
// without effect, it ends the command at once.
//
// Threads: the flag may be read by any; the functions are called by one.
#pragma once

#include <atomic>

#include "sandbox/report/report.h"

namespace membrane::cli {

// Ctrl-C sets the flag after catch_interrupt(); before, it ends the process.
std::atomic<bool>& interrupt_flag();
void catch_interrupt();

// Says in the report's error that it was Ctrl-C which stopped the run.
void name_interrupt(sandbox::Report& report);
// The exit code of a command after its run: kEndBySignal if Ctrl-C stopped it.
int exit_code_after(const sandbox::Report& report);

}  // namespace membrane::cli
