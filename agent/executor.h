// Where the loop's programs run: in sandboxes, all under one policy and on one budget.
//
// Threads: an Executor is called by one thread at a time.
#pragma once

#include <memory>

#include "agent/loop.h"
#include "host/broker.h"
#include "policy/budget.h"
#include "policy/policy.h"

namespace membrane::agent {

struct ExecutorOptions {
  policy::Policy policy;
  std::shared_ptr<policy::Budget> budget;  // the loop's own
  host::Model* model = nullptr;            // for ai.*; borrowed, may be null
  host::Person* person = nullptr;          // for agent.ask; borrowed, may be null
};

Executor sandbox_executor(ExecutorOptions options);

}  // namespace membrane::agent
