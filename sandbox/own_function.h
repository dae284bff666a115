// A host function that the embedder defines: a hole in the wall besides the capabilities.
//
// It is neither decided on by the policy nor journaled (a run that replays calls it again), but it
// counts as a host call and stands in the report.
//
// Threads: called on the thread of the run.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "host/guest.h"
#include "wasm/types.h"

namespace membrane::engine {
struct HostCall;
enum class HostAction : uint8_t;
}  // namespace membrane::engine

namespace membrane::sandbox {

struct OwnFunction {
  std::string module;  // of the import
  std::string name;
  wasm::FuncType type;
  std::function<engine::HostAction(host::Guest&, engine::HostCall&)> call;
};

}  // namespace membrane::sandbox
