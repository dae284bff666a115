// One policy under the ceiling of another: what both of them allow.
//
// A recording names the policy that it was made under. Whoever replays it decides what is granted, and the recording's
// policy bounds that: nothing is granted that was not when it was made. A recording that grants something by itself would
// be a program with rights of its own choice.
//
// Threads: pure.
#pragma once

#include <string>
#include <vector>

#include "policy/policy.h"

namespace membrane::policy {

struct Restricted {
  Policy policy;
  // Sentences: what is granted and was not under the ceiling ("fs /data of ./data is given, and was not granted when …"),
  // and what was and is not. Empty when the two policies grant the same.
  std::vector<std::string> differences;
};

// `given` with each limit and amount no higher than `ceiling` has it, without the grants that `ceiling` does not cover and
// the packages that are not named alike in both, and
// with its virtual clock and its seed where these are virtual there. A grant is covered by one of the same kind: of HTTP by
// one whose pattern contains its own, with the same headers (methods and addresses are those that both name); of files by
// one of the same directory or one above. Where `ceiling` has the trifecta rule, what a grant reads keeps the marks that it had
// under it (trifecta.h), whichever of its grants gave them.
Restricted restrict(const Policy& given, const Policy& ceiling);

}  // namespace membrane::policy
