// One call of an exported function, for tests that look at how it ends.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "engine/execution/execution.h"

namespace membrane::engine {

// How a call ended.
struct Ended {
  RunState state;
  uint64_t fuel;
  std::vector<uint64_t> results;
  std::string trap;
};

inline Ended call(Instance& instance, std::string_view name, std::vector<Value> arguments = {},
                  uint64_t fuel = 1'000'000) {
  Execution run;
  run.add_fuel(fuel);
  EXPECT_TRUE(run.start(instance.find_function(name), arguments));
  Ended ended{run.resume(), run.fuel_used(), {}, {}};
  for (const Value& v : run.results()) ended.results.push_back(v.bits);
  if (ended.state == RunState::kTrapped) ended.trap = run.trap().message;
  return ended;
}

}  // namespace membrane::engine
