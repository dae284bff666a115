// A secret from an environment variable that no later fork may inherit: until it is taken, its value is only
// in a pipe, and nowhere in memory.
//
// Threads: hide it while there is only one, since that changes the environment.
#pragma once

#include <string>

#include "worker/channel.h"

namespace membrane::service {

class HiddenVariable {
 public:
  // Removes the variable from the environment, and overwrites it there.
  explicit HiddenVariable(const char* name);
  // Call it once; "" when the variable was not set, or had more than 4,000 bytes.
  std::string take();

 private:
  worker::Descriptor pipe_;
};

}  // namespace membrane::service
