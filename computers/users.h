// Who a command of an image is: its maker's "user", "user:group", by names or numbers.
//
// Threads: pure, but for the sandbox.
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
  std::string home = {};  // "" where /etc/passwd does not have it
};

// `passwd`, `group`: the texts of /etc/passwd and /etc/group, "" where there are none. "" is root. Errors: kInvalidInput for a name that is
// not in them.
Result<User> find_user(std::string_view who, std::string_view passwd, std::string_view group);
// The same by the files of an image.
Result<User> find_user(std::string_view who, const linux::Layer& image);
// The same by the files of a sandbox as they are.
Result<User> find_user(std::string_view who, linux::LiveComputer& computer);

}  // namespace membrane::computers
