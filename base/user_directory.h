// Membrane's directories in the home of this process's user, by the XDG Base Directory Specification.
//
// Threads: as environment_variable().
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace membrane {

enum class UserDirectory : uint8_t {
  kCache,   // $XDG_CACHE_HOME, else ~/.cache
  kConfig,  // $XDG_CONFIG_HOME, else ~/.config
  kData,    // $XDG_DATA_HOME, else ~/.local/share
  kState,   // $XDG_STATE_HOME, else ~/.local/state
};

// membrane/NAME below it. As specified, a path that is not absolute is ignored, in HOME, too. "" without a home.
std::string user_path(UserDirectory directory, std::string_view name);

}  // namespace membrane
