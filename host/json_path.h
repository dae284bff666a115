// Paths into JSON, as json.* accept them: "papers[0].title".
//
//   path  = [ "$" ] [ step ] { step }
//   step  = [ "." ] name | "[" index "]" | "[" string "]"
//   name  = characters other than "." "[" "]"; on an array, digits are an index
//   index = digits, or "-" digits, which count from the end: -1 is the last
//   string = a JSON string, for names with "." or brackets in them: ["a.b"]
//
// The empty path and "$" name the whole document.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "host/errno.h"

namespace membrane::host {

struct PathStep {
  std::string name;        // as written
  bool is_index = false;   // "[index]"
  int64_t index = 0;       // also for a name that is all digits
  bool has_index = false;  // index has been set
};

inline constexpr size_t kMaxPathSteps = 256;

// EINVAL when the path is malformed; the reason says where.
HostResult<std::vector<PathStep>> parse_json_path(std::string_view path);

}  // namespace membrane::host
