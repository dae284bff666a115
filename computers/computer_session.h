// A Linux sandbox as a session: a turn is a script for its shell, and files and processes persist between
// turns.
//
// It lacks what only languages have (pausing, saving as bytes, completion). A fork continues with the
// parent's files and processes, except for connections that led out of it.
//
// Threads: one at a time; forks are independent.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "linux/sandbox/live_computer.h"
#include "policy/policy.h"
#include "sandbox/session.h"

namespace membrane::computers {

class Authority;  // network/authority.h

struct ComputerSessionOptions {
  std::shared_ptr<linux::ComputerSource> source;
  linux::LiveSpec spec;                   // for a new sandbox; `kept` and borrowed descriptors are ignored
  policy::Limits limits;                  // of each turn
  std::vector<policy::HttpGrant> grants;  // the network
  std::vector<policy::FsGrant> directories = {};
  std::vector<std::string> environment;  // NAME=VALUE
  std::string directory = "/root";
  std::shared_ptr<Authority> authority =
      nullptr;  // the authority that its programs trust; null: one of its own, shared with its forks
};

// Errors: those of ComputerSource::create().
Result<std::unique_ptr<sandbox::Session>> computer_session(const ComputerSessionOptions& options);

}  // namespace membrane::computers
