// Workers for a process that cannot fork them itself, since it has threads, and secrets in its memory: an embedder of the
// library. It starts a small program, membrane-worker, which becomes the zygote:
//
//   embedder ─ start_program() ─▶ membrane-worker ─ new_process() ─▶ zygote ─▶ workers
//                                 says hello with the zygote's process, and ends
//
// So no process is a child of the embedder's for longer than the start takes. The program has no descriptor of the embedder's
// but its socket and the embedder's process, by which it sees that the embedder has ended; and of the environment, nothing but
// where the loader finds libraries. The zygote ends with the embedder, however that ends, and its workers with it.
//
// Threads: any.
#pragma once

#include <string>

#include "base/result.h"
#include "worker/channel.h"

namespace membrane::worker {

// A zygote, and the process that it is.
struct StartedProgram {
  Channel channel;
  Descriptor process;
};

// Errors: kNotFound where there is no program at `path`; kUnsupported for one of another build; kUnavailable for one that
// does not start, with its reason.
Result<StartedProgram> start_program(const std::string& path);

// What the program does; its descriptors stand where start_program() puts them.
[[noreturn]] void be_program();
// Whether they do: somebody may have started it by hand.
bool is_started_by_library();

}  // namespace membrane::worker
