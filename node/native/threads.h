// Threads for turns. They are not those of Node's own pool: a turn that waits for a function of the host would keep one from the function.
//
// Threads: any.
#pragma once

#include <functional>

namespace membrane::node {

// On a thread that has nothing else to do, which is a new one when all have.
void run_on_thread(std::function<void()> act);

}  // namespace membrane::node
