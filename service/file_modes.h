// Permissions and symbolic links of a guest's files, of those kinds of guests that have them (Linux sandboxes).
//
// Threads: the sandbox's, as for Guest's own.
#pragma once

#include <cstdint>
#include <string>

#include "service/errors.h"

namespace membrane::service {

class FileModes {
 public:
  struct Facts {
    uint32_t mode = 0;        // permissions, 07777
    std::string target = {};  // of a link
  };
  virtual ~FileModes() = default;
  // Errors of all: as Guest::read_file().
  virtual Answer<Facts> mode_facts(const std::string& path, bool follows_links) = 0;
  virtual Answer<void> set_mode(const std::string& path, uint32_t mode) = 0;
  // In the place of a file or link that is there; directories above it are made.
  virtual Answer<void> make_link(const std::string& path, const std::string& target) = 0;
};

}  // namespace membrane::service
