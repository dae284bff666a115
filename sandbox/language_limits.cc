#include "sandbox/language_limits.h"

#include <algorithm>

namespace membrane::sandbox {
namespace {

// For the interpreter itself.
constexpr uint64_t kInterpreterStackBytes = 3ull << 20;
constexpr uint64_t kInterpreterCallDepth = 20'000;
constexpr uint64_t kInterpreterTableElements = 200'000;
constexpr uint64_t kMostMemoryBytes = 4ull << 30;

}  // namespace

engine::ExecutionLimits language_execution_limits(const policy::Limits& limits) {
  engine::ExecutionLimits made;
  made.stack_bytes = limits.stack_bytes + kInterpreterStackBytes;
  made.call_depth =
      static_cast<uint32_t>(std::min<uint64_t>(limits.call_depth + kInterpreterCallDepth, 10'000'000));
  made.keeps_stack = true;
  return made;
}

engine::InstanceLimits language_instance_limits(const policy::Limits& limits,
                                                const engine::InstanceImage& image) {
  engine::InstanceLimits made;
  made.memory_bytes = std::min(image.memory_bytes() + limits.memory_bytes, kMostMemoryBytes);
  made.table_elements = static_cast<uint32_t>(
      std::min<uint64_t>(limits.table_elements + kInterpreterTableElements, UINT32_MAX));
  return made;
}

wasi::Config wasi_config(const Template& of, const policy::Policy& policy) {
  wasi::Config config;
  config.arguments = of.package().arguments;
  if (config.arguments.empty()) config.arguments.push_back(of.package().name);
  config.environment = of.package().environment;
  config.policy = &policy;
  config.image = of.files();
  return config;
}

}  // namespace membrane::sandbox
