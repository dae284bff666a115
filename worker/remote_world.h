// The world of a session inside a worker: each request goes over the socket, and the supervisor's World decides, acts and
// keeps the journal. Nothing of it is trusted there.
//
// Ownership: the link is borrowed. Threads: one at a time.
#pragma once

#include <memory>
#include <optional>

#include "host/world.h"
#include "worker/link.h"

namespace membrane::worker {

// What the supervisor says along with a command, so that it need not be asked for while that runs.
struct SaidAlong {
  struct Sources {
    host::World::Position position;
    bool has_store_in_memory = false;
  };
  std::optional<Sources> sources = {};
  bool has_gone_to = false;  // where the session's bytes say
};

// `subject`: the session's number. `said` is borrowed.
std::unique_ptr<host::World> make_remote_world(Link& link, uint32_t subject, const SaidAlong& said);

}  // namespace membrane::worker
