// Approval, a model, a person and receipts of a session (membrane/agents.hpp), as src/agents.ts describes them. Questions go to the turn's
// host.
#pragma once

#include <napi.h>

#include <membrane/session.hpp>

namespace membrane::node {

void add_agents(const Napi::Object& words, SessionOptions& options);

// Adds what the classes Flows and Receipts need to the module.
void define_agents(Napi::Env env, Napi::Object exports);

}  // namespace membrane::node
