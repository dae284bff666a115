// The world of a session inside a worker: each request goes over the socket, and the supervisor's World decides, acts and
// keeps the journal. Nothing of it is trusted there.
//
// Ownership: the link is borrowed. Threads: one at a time.
#pragma once

#include <memory>

#include "host/world.h"
#include "worker/link.h"

namespace membrane::worker {

// `subject`: the session's number.
std::unique_ptr<host::World> make_remote_world(Link& link, uint32_t subject);

}  // namespace membrane::worker
