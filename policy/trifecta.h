// How the trifecta rule of a policy classifies each grant: whether what is read by it is private, and whether others
// may have written it.
//
//   http             untrusted, unless the grant says untrusted = false; private when it says so
//   fs, kv, sql      what the grant says
//   fs with mode write, kv in a file, and what shares their place on the host
//                    besides: what other runs under the policy may have left there. Private when any grant is, untrusted when
//                    any grant is; a grant that says otherwise of itself counts as it says
//
// A mark applies to the place on the host, whichever grant leads there: a directory below another, or a store or a
// database in a directory.
//
// Threads: pure functions.
#pragma once

#include "policy/policy.h"

namespace membrane::policy {

struct ReadMarks {
  bool is_private = false, is_untrusted = false;

  friend bool operator==(const ReadMarks&, const ReadMarks&) = default;
  friend ReadMarks operator|(ReadMarks one, ReadMarks other) {
    return {one.is_private || other.is_private, one.is_untrusted || other.is_untrusted};
  }
};

// `grant` must be one of the policy's.
ReadMarks marks_of(const Policy& policy, const HttpGrant& grant);
ReadMarks marks_of(const Policy& policy, const FsGrant& grant);
ReadMarks marks_of(const Policy& policy, const KvGrant& grant);
ReadMarks marks_of(const Policy& policy, const SqlGrant& grant);

}  // namespace membrane::policy
