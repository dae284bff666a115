// What makes a sandbox's runs repeatable: the start of its clock and the seed of its random numbers.
#pragma once

#include <cstdint>

namespace membrane::linux {

struct Determinism {
  int64_t start_ms = 946'684'800'000;  // start of the virtual clock, since 1970; as in policy::TimeGrant
  uint64_t seed = 0;                   // for all random numbers
  bool operator==(const Determinism&) const = default;
};

}  // namespace membrane::linux
