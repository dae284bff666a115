// What an embedder gives to its programs beside the policy (membrane/agents.hpp), in the types of the floors below.
//
// Threads: functions without state.
#pragma once

#include <memory>

#include "host/broker/broker.h"
#include "host/gate/flows.h"
#include "membrane/agents.hpp"
#include "sandbox/run/sandbox.h"

namespace membrane {

struct Flows::State {
  std::shared_ptr<host::Flows> flows = std::make_shared<host::Flows>();
};

}  // namespace membrane

namespace membrane::face {

// Null when there is no function to call.
host::Approve approve_of(Approve approve);
std::shared_ptr<host::Model> model_of(Model model);
std::shared_ptr<host::Person> person_of(Ask ask);

// What RunOptions borrow: keep it as long as the run or session of these options.
struct Company {
  std::shared_ptr<host::Model> model;
  std::shared_ptr<host::Person> person;

  void join(sandbox::RunOptions& options) const {
    options.model = model.get();
    options.person = person.get();
  }
};

}  // namespace membrane::face
