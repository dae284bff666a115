// The world of a session inside a worker: each request goes over the socket; the supervisor's World decides,
// acts and keeps the journal. The supervisor trusts none of it.
//
// Ownership: the link is borrowed. Threads: one at a time.
#pragma once

#include <memory>
#include <optional>

#include "host/world.h"
#include "worker/link.h"

namespace membrane::worker {

// What the supervisor sends along with a command, so that the worker need not ask for it while the command
// runs.
struct SaidAlong {
  struct Sources {
    host::World::Position position;
    bool has_store_in_memory = false;
  };
  std::optional<Sources> sources = {};
  bool has_gone_to = false;  // to the position in the session's bytes
};

// `subject`: the session's number. `said` is borrowed.
std::unique_ptr<host::World> make_remote_world(Link& link, uint32_t subject, const SaidAlong& said);

}  // namespace membrane::worker
