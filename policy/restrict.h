// Restricts one policy to a ceiling: the result allows only what both allow.
//
// A recording names the policy that it was made under. The caller of a replay decides what is granted, and the
// recording's policy bounds that: nothing is granted that was not granted originally. A recording that granted
// something by itself would be a program that chooses its own rights.
//
// Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include "policy/policy.h"

namespace membrane::policy {

struct Restricted {
  Policy policy;
  // Sentences: what is granted but was not under the ceiling ("fs /data of ./data is given, and was not granted when
  // …"), and vice versa. Empty when the two policies grant the same.
  std::vector<std::string> differences;
};

// `given` with each limit and amount no higher than in `ceiling`, without the grants that `ceiling` does not cover
// and the packages that the two do not name alike, and with the virtual clock and the seed of `ceiling` where these
// are virtual there. A grant is covered by one of the same kind: an HTTP grant by one whose pattern contains its
// own, with the same headers (methods and addresses are intersected); a file grant by one for the same directory or
// a parent. If `ceiling` has the trifecta rule, what a grant reads keeps the marks that it had under it
// (trifecta.h), whichever of its grants gave them.
Restricted restrict(const Policy& given, const Policy& ceiling);

}  // namespace membrane::policy
