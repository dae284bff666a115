#include "worker/control_groups.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

namespace membrane::worker {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "membrane-";
constexpr uint64_t kPeriodUs = 100'000;  // of CPU time

std::string reason() { return std::strerror(errno); }

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

bool write_file(const std::string& path, const std::string& text) {
  const int file = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool done = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int why = errno;
  close(file);
  errno = why;
  return done;
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, at);) parts.push_back(part);
  return parts;
}

bool has(const std::vector<std::string>& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

// The directory of this process's group in the hierarchy of a version 1 controller, or, for "", of version 2.
// Nothing if that is not mounted.
std::optional<std::string> own_directory(const std::string& controller) {
  std::optional<std::string> path;  // 4:memory:/a, 0::/a
  for (const std::string& line : split(read_file("/proc/self/cgroup"), '\n')) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (controller.empty() ? controllers.empty() : has(split(controllers, ','), controller))
      path = line.substr(second + 1);
  }
  if (!path) return std::nullopt;
  // 36 25 0:31 /root /mount/point rw … - cgroup cgroup rw,memory
  for (const std::string& line : split(read_file("/proc/self/mountinfo"), '\n')) {
    const std::vector<std::string> words = split(line, ' ');
    const auto dash = std::ranges::find(words, "-");
    if (words.size() < 6 || words.end() - dash < 4) continue;
    const bool is_it = controller.empty() ? dash[1] == "cgroup2"
                                          : dash[1] == "cgroup" && has(split(dash[3], ','), controller);
    if (!is_it) continue;
    const std::string& root = words[3];
    std::string below = *path;
    if (root != "/" && below.starts_with(root)) below.erase(0, root.size());
    if (below == "/" || below.find("/..") != std::string::npos) below.clear();
    return words[4] + below;
  }
  return std::nullopt;
}

// Removes groups of services that have ended. A group in use is not empty and stays.
void remove_leftovers(const std::string& directory) {
  std::error_code error;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with(kPrefix)) continue;
    pid_t pid = 0;
    const char* const number = name.data() + kPrefix.size();
    const auto [rest, wrong] = std::from_chars(number, name.data() + name.size(), pid);
    if (wrong != std::errc() || rest == number || fs::exists("/proc/" + std::to_string(pid), error)) continue;
    rmdir(at->path().c_str());
  }
}

// A limit: a file of its group, and the value to write.
struct Bound {
  std::string controller;
  std::vector<std::pair<std::string, std::string>> files;
};

std::vector<Bound> bounds_of(const ControlLimits& limits, bool is_second_version) {
  std::vector<Bound> bounds;
  if (limits.memory_bytes != 0)
    bounds.push_back({"memory",
                      {{is_second_version ? "memory.max" : "memory.limit_in_bytes",
                        std::to_string(limits.memory_bytes)}}});
  if (limits.processes != 0) bounds.push_back({"pids", {{"pids.max", std::to_string(limits.processes)}}});
  if (limits.cpu_percent == 0) return bounds;
  const std::string quota = std::to_string(limits.cpu_percent * kPeriodUs / 100);
  if (is_second_version) bounds.push_back({"cpu", {{"cpu.max", quota + " " + std::to_string(kPeriodUs)}}});
  else
    bounds.push_back(
        {"cpu", {{"cpu.cfs_period_us", std::to_string(kPeriodUs)}, {"cpu.cfs_quota_us", quota}}});
  return bounds;
}

std::string name_of_own() { return std::string(kPrefix) + std::to_string(getpid()); }

bool make_group(const std::string& path) { return mkdir(path.c_str(), 0755) == 0 || errno == EEXIST; }

bool move_to(const std::string& group, pid_t process) {
  return write_file(group + "/cgroup.procs", std::to_string(process));
}

// Whether groups below `own` may have this controller. A group with processes cannot delegate one, except the
// root: if it holds only our processes, they move into a group next to that of the workers.
bool hand_on(const std::string& own, const std::string& controller, std::span<const pid_t> ours) {
  const std::string file = own + "/cgroup.subtree_control";
  if (has(split(read_file(file), ' '), controller) || write_file(file, "+" + controller)) return true;
  if (errno != EBUSY) return false;
  std::vector<pid_t> all(ours.begin(), ours.end());
  all.push_back(getpid());
  for (const std::string& line : split(read_file(own + "/cgroup.procs"), '\n'))
    if (std::ranges::find(all, std::atoi(line.c_str())) == all.end()) return errno = EBUSY, false;
  const std::string beside = own + "/" + name_of_own() + "-service";
  if (!make_group(beside)) return false;
  if (std::ranges::all_of(all, [&](pid_t process) { return move_to(beside, process); }) &&
      write_file(file, "+" + controller))
    return true;
  const int why = errno;
  for (const pid_t process : all) move_to(own, process);
  rmdir(beside.c_str());
  errno = why;
  return false;
}

std::string trimmed_line(std::string text) {
  text.erase(std::find_if(text.rbegin(), text.rend(), [](char c) { return c != '\n' && c != ' '; }).base(),
             text.end());
  return text;
}

}  // namespace

ControlGroups ControlGroups::make(const ControlLimits& limits, std::span<const pid_t> own) {
  ControlGroups groups;
  const std::optional<std::string> second = own_directory("");
  const std::vector<std::string> of_second =
      second ? split(trimmed_line(read_file(*second + "/cgroup.controllers")), ' ')
             : std::vector<std::string>();
  // For a controller of version 2 or 1; one machine can have both.
  for (const Bound& of_first_version : bounds_of(limits, false)) {
    const std::string& controller = of_first_version.controller;
    const bool is_second = has(of_second, controller);
    const std::optional<std::string> place = is_second ? second : own_directory(controller);
    if (!place) {
      groups.miss(controller + ": no hierarchy here has it");
      continue;
    }
    remove_leftovers(*place);
    const std::string group = *place + "/" + name_of_own();
    if ((is_second && !hand_on(*place, controller, own)) || !make_group(group)) {
      groups.miss(controller + ": no group can be made in " + *place + ": " + reason());
      continue;
    }
    if (!has(groups.directories_, group)) groups.directories_.push_back(group);
    bool is_bounded = true;
    for (const Bound& bound : bounds_of(limits, is_second))
      if (bound.controller == controller)
        for (const auto& [file, text] : bound.files)
          is_bounded = is_bounded && write_file(group + "/" + file, text);
    if (is_bounded) groups.bounded_.push_back(controller);
    else groups.miss(controller + ": " + group + " accepts no limit: " + reason());
  }
  return groups;
}

ControlGroups::~ControlGroups() {
  for (const std::string& directory : directories_) rmdir(directory.c_str());
}

Status ControlGroups::add(pid_t process) {
  for (const std::string& directory : directories_)
    if (!move_to(directory, process))
      return fail(ErrorCode::kUnavailable, "cannot put a process into " + directory + ": " + reason());
  return {};
}

}  // namespace membrane::worker
