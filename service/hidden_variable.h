// A secret that comes by an environment variable, and shall be in no process that is forked from here on: its value waits
// in a pipe, and is nowhere in memory, until it is taken.
//
// Threads: none but one may run when it is hidden, since it changes the environment.
#pragma once

#include <string>

#include "worker/channel.h"

namespace membrane::service {

class HiddenVariable {
 public:
  // Takes the variable out of the environment, and overwrites it there.
  explicit HiddenVariable(const char* name);
  // Once; "" when there was none, or one of more than 4,000 bytes.
  std::string take();

 private:
  worker::Descriptor pipe_;
};

}  // namespace membrane::service
