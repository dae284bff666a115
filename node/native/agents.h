// Approval, a model, a person and receipts of a session (membrane/agents.hpp), as src/agents.ts tells of them; what is asked is asked of
// the turn's host.
#pragma once

#include <napi.h>

#include <membrane/session.hpp>

namespace membrane::node {

void add_agents(const Napi::Object& words, SessionOptions& options);

// What the module has for the classes Flows and Receipts.
void define_agents(Napi::Env env, Napi::Object exports);

}  // namespace membrane::node
