// Runs the loop's programs: in sandboxes, all under one policy and on one budget.
//
// A program in WAT runs alone. One in another language is a turn of a session, which starts with the first
// such program of a conversation and lasts as long as the conversation: state persists between the steps. A
// step that ends badly (no fuel, no time, no memory) leaves the session as it was before.
//
// The policy's limits apply to each program; the budget limits all of them together.
//
// Threads: one thread at a time calls an Executor; copies share their sessions.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "agent/loop.h"
#include "host/broker.h"
#include "policy/budget.h"
#include "policy/policy.h"
#include "sandbox/receipt_files.h"
#include "sandbox/template.h"
#include "worker/guests.h"

namespace membrane::agent {

struct ExecutorOptions {
  policy::Policy policy;
  std::shared_ptr<policy::Budget> budget;  // the loop's own
  host::Model* model = nullptr;            // for ai.*; borrowed, may be null
  host::Person* person = nullptr;          // for agent.ask; borrowed, may be null
  std::map<std::string, std::shared_ptr<const sandbox::Template>> templates = {};  // by Program::written_in
  sandbox::ReceiptBook* receipts = nullptr;  // receives a receipt of each program; borrowed, may be null
  worker::Guests guests = worker::Guests();  // where they run
  host::Approve approve = nullptr;  // asked before data leaves (host/flows.h); null: nobody can approve
};

// A program in a language without a template gets the outcome kInvalid. All steps of a conversation must use
// the same cancel flag: another flag restarts the sessions.
Executor sandbox_executor(ExecutorOptions options);

}  // namespace membrane::agent
