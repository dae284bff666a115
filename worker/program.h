// Workers for a process that cannot fork them itself, since it has threads and secrets in its memory: an
// embedder of the library. It starts a small program, membrane-worker, which becomes the zygote:
//
//   embedder ─ start_program() ─▶ membrane-worker ─ new_process() ─▶ zygote ─▶ workers
//                                 says hello with the zygote's process, and ends
//
// So no process is a child of the embedder's for longer than the start takes. The program gets no descriptor
// of the embedder's except its socket and a process descriptor, by which it notices that the embedder has
// ended; and of the environment, only where the loader finds libraries. The zygote ends with the embedder,
// however that ends, and its workers with it.
//
// Threads: any.
#pragma once

#include <string>

#include "base/result.h"
#include "worker/channel.h"

namespace membrane::worker {

// A zygote and its process.
struct StartedProgram {
  Channel channel;
  Descriptor process;
};

// Errors: kNotFound if there is no program at `path`; kUnsupported for another build; kUnavailable for a
// program that does not start, with its reason.
Result<StartedProgram> start_program(const std::string& path);

// The program's main function; its descriptors are where start_program() puts them.
[[noreturn]] void be_program();
// Whether they are: somebody may have started it by hand.
bool is_started_by_library();

}  // namespace membrane::worker
