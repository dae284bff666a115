// Threads for turns. Node's own pool is not used: a turn that waits for a function would occupy a thread that the function may need.
//
// Threads: any.
#pragma once

#include <functional>

namespace membrane::node {

// Runs it on an idle thread, or on a new one if all are busy.
void run_on_thread(std::function<void()> act);

}  // namespace membrane::node
