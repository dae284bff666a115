// The walls around a worker process, besides those inside it (linear memory, grants).
//
//   new_process()        user and pid namespaces: it sees and signals no other process
//   enclose()            mount, net, ipc, uts and cgroup namespaces, no core dumps, ends with its parent, an empty
//                        environment, the first system-call filter: no programs, no sockets, no tracing
//   … the worker opens its templates …
//   lock_up()            an empty root, no descriptors but those that it needs, limits of resources, no capabilities,
//                        the second filter: memory, its socket, and the end
//
// Each wall is a row of walls.def. A wall that this machine cannot raise is named in Walls::missing with the
// reason; the others are raised anyway, and the caller decides.
//
// Threads: for processes with one thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace membrane::worker {

enum class Wall : uint8_t {
#define WALL(id, name, words) id,
#include "worker/walls.def"
#undef WALL
};
inline constexpr size_t kWallCount = 0
#define WALL(id, name, words) +1
#include "worker/walls.def"
#undef WALL
    ;
std::string_view name_of(Wall wall);   // "user_namespace"
std::string_view describe(Wall wall);  // what it does, as the rest of a sentence

struct Walls {
  std::vector<std::pair<std::string, std::string>> missing;  // the wall's name, and why it is missing

  void miss(Wall wall, std::string why) { missing.emplace_back(name_of(wall), std::move(why)); }
};

struct WallLimits {
  bool hashes = false;        // its guests are frozen or thawed, which needs a library to be loaded first
  uint64_t memory_bytes = 0;  // memory of the worker's guests beyond the templates' mappings; 0: no limit
};

struct NewProcess {
  pid_t pid = -1;         // 0 in the new process
  int process_file = -1;  // a pidfd of it, in the parent; owned by the caller
};
// Forks, into new user and pid namespaces if the system has them. Errors: kUnavailable.
Result<NewProcess> new_process(Walls& walls);
// The purpose of the new process.
struct Enclosure {
  bool is_zygote = false;        // it forks workers into networks of its pool (network_pool.h)
  bool has_network = false;      // it was forked into such a network, without any other worker
  bool outlives_parent = false;  // it outlives its parent and watches another process (program.h)
};
// In the new process, before it reads anything from elsewhere.
void enclose(const Enclosure& how, Walls& walls);
// From here on there is no way back. `kept` are the descriptors that stay open.
void lock_up(std::span<const int> kept, const WallLimits& limits, Walls& walls);
// For the supervisor of a process that locked itself up before its guests' memory limit was known: sets the
// limits of memory and of files. `process_file` is its pidfd.
void limit_memory(int process_file, const WallLimits& limits, Walls& walls);

// The filters (system_calls.cc). Errors: kUnsupported with the reason.
Status allow_setting_up(bool is_zygote);
Status allow_running();

}  // namespace membrane::worker
