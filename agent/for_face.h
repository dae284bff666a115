// Adapts the conversation's model, person and approval to the public face (membrane/agents.hpp).
//
// Threads: stateless functions; their results are called on the thread of the program.
#pragma once

#include "host/broker.h"
#include "host/flows.h"
#include "membrane/agents.hpp"

namespace membrane::agent {

// The model and the person are borrowed, and may be null: then nobody answers.
membrane::Model model_for_face(host::Model* model);
membrane::Ask ask_for_face(host::Person* person);
// Null if there is nothing to ask.
membrane::Approve approve_for_face(host::Approve approve);

}  // namespace membrane::agent
