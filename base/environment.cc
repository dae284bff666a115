#include "base/environment.h"

#include <unistd.h>

#include <cstring>

namespace membrane {

void clear_environment() {
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable)
    std::memset(*variable, 0, std::strlen(*variable));
  clearenv();
}

}  // namespace membrane
