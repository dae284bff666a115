// Who causes what a sandbox does or becomes, for the audit log.
#pragma once

#include <string>

namespace membrane::service {

struct Actor {
  std::string tenant;
  std::string by = {};          // a token's id; "": the service itself
  std::string request_id = {};  // "": none
};

}  // namespace membrane::service
