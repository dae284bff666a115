// The parts of E2B's interface, one file for each. A handler answers every call that it gets, now or later.
//
// Threads: any; they keep no state.
#pragma once

#include "service/e2b/call.h"

namespace membrane::service::e2b {

void handle_api(const Service& service, const SharedCall& call);      // rest.cc: /sandboxes, /v2/sandboxes, …
void handle_files(const Service& service, const SharedCall& call);    // files.cc: /files
void handle_process(const Service& service, const SharedCall& call);  // process.cc: /process.Process/…
void handle_filesystem(const Service& service,
                       const SharedCall& call);                    // filesystem.cc: /filesystem.Filesystem/…
void handle_code(const Service& service, const SharedCall& call);  // code_interpreter.cc: /execute, /contexts

}  // namespace membrane::service::e2b
