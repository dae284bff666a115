// Workers that break the protocol: the rows of hostile_peers.def.
//
// Threads: for a process with one thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace membrane::worker {

using KeepFile = std::function<void(std::string_view path, std::string_view bytes)>;

std::vector<std::string_view> names_of_peers();
// Requests a run in `directory` from a worker that behaves like this, and then from a good one; returns the
// results. `keep_in` creates a writer of a run's files beneath a directory. Nothing when there is no such
// peer.
std::optional<nlohmann::ordered_json> meet_peer(const std::string& name, const std::string& directory,
                                                const std::function<KeepFile(const std::string&)>& keep_in);

}  // namespace membrane::worker
