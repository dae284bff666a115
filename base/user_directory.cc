#include "base/user_directory.h"

#include "base/environment.h"

namespace membrane {

std::string user_path(UserDirectory directory, std::string_view name) {
  struct Place {
    const char* variable;
    std::string_view below_home;
  };
  constexpr Place kPlaces[] = {{"XDG_CACHE_HOME", "/.cache"},
                               {"XDG_CONFIG_HOME", "/.config"},
                               {"XDG_DATA_HOME", "/.local/share"},
                               {"XDG_STATE_HOME", "/.local/state"}};
  const Place& place = kPlaces[static_cast<size_t>(directory)];
  std::string path = environment_variable(place.variable);
  if (!path.starts_with('/')) {
    path = environment_variable("HOME");
    if (!path.starts_with('/')) return "";
    path += place.below_home;
  }
  return path.append("/membrane/").append(name);
}

}  // namespace membrane
