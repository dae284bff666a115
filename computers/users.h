// The user of an image's command: the maker's "user" or "user:group", by names or numbers.
//
// Threads: pure, except for the sandbox.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "linux/image/layer.h"
#include "linux/sandbox/live_computer.h"

namespace membrane::computers {

struct User {
  uint32_t user = 0, group = 0;
  std::string home = {};  // "" if /etc/passwd lacks it
};

// `passwd`, `group`: the texts of /etc/passwd and /etc/group, "" if missing. "" is root. Errors:
// kInvalidInput for a name that they lack.
Result<User> find_user(std::string_view who, std::string_view passwd, std::string_view group);
// The same with the files of an image.
Result<User> find_user(std::string_view who, const linux::Layer& image);
// The same with the current files of a sandbox.
Result<User> find_user(std::string_view who, linux::LiveComputer& computer);

}  // namespace membrane::computers
