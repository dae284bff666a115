// Instances from text, for tests.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>

#include "engine/execution/execution.h"
#include "engine/execution/module.h"
#include "wasm/text/parser.h"

namespace membrane::engine {

inline std::shared_ptr<CompiledModule> compile(std::string_view text, Tier tier = Tier::kAuto) {
  auto parsed = wasm::parse_text(text);
  if (!parsed) {
    ADD_FAILURE() << render(parsed.error().front(), text, "test.wat");
    return nullptr;
  }
  auto compiled = compile_module(std::move(*parsed), text, tier);
  if (!compiled) {
    ADD_FAILURE() << render(compiled.error(), text, "test.wat");
    return nullptr;
  }
  return *compiled;
}

inline std::shared_ptr<Instance> instantiate(std::string_view text, const Resolver& resolver = {},
                                             const InstanceLimits& limits = {}, Tier tier = Tier::kAuto) {
  auto module = compile(text, tier);
  if (!module) return nullptr;
  auto instance = Instance::create(module, resolver, limits);
  if (!instance) {
    ADD_FAILURE() << instance.error().error.to_string();
    return nullptr;
  }
  return *instance;
}

// Of tests whose parameter is the tier that they run in.
class InTier : public ::testing::TestWithParam<Tier> {
 protected:
  static std::shared_ptr<CompiledModule> compiled(std::string_view text) { return compile(text, GetParam()); }
  static std::shared_ptr<Instance> made(std::string_view text, const InstanceLimits& limits = {}) {
    return instantiate(text, {}, limits, GetParam());
  }
};
#define MEMBRANE_IN_BOTH_TIERS(Suite)                                                            \
  class Suite : public InTier {};                                                                \
  INSTANTIATE_TEST_SUITE_P(Tiers, Suite, ::testing::Values(Tier::kInterpreter, Tier::kCompiler), \
                           [](const auto& tier) { return std::string(name_of(tier.param)); })

}  // namespace membrane::engine
