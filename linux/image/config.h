// How programs of an image start, as its maker specified: the part "config" of an OCI image's configuration.
//
// Threads: pure.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace membrane::linux {

struct ImageConfig {
  std::vector<std::string> environment = {};  // NAME=VALUE
  std::vector<std::string> entrypoint = {}, command = {};
  std::string directory = {}, user = {};
  std::vector<std::string> shell = {};  // for RUN; empty: the default
  std::map<std::string, std::string> labels = {};
  std::set<std::string> ports = {};  // "80/tcp": the ports that its maker declares

  bool operator==(const ImageConfig&) const = default;
};

// {"Env": [], "Entrypoint": [], "Cmd": [], "WorkingDir": "", "User": "", "Shell": [], "Labels": {"": ""},
// "ExposedPorts": {"": {}}}; each member may be missing or null, and others may be present. "" is an empty
// configuration. Errors: kInvalidInput; kTooLong.
Result<ImageConfig> read_image_config(std::string_view json);
std::string image_config_text(const ImageConfig& config);

}  // namespace membrane::linux
