#include "linux/platform/trap/process_memory.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <string_view>

namespace membrane::linux {
namespace {

struct Field {
  std::string_view name;  // with its colon
  uint64_t* bytes;
};

// Adds up the lines "Name:  12 kB" of the fields. Returns how many there were; nothing without the file.
std::optional<size_t> read_fields(pid_t process, const char* name, std::initializer_list<Field> fields) {
  const std::string who = process == 0 ? "self" : std::to_string(process);
  std::FILE* const file = std::fopen(("/proc/" + who + "/" + name).c_str(), "re");
  if (file == nullptr) return std::nullopt;
  size_t found = 0;
  std::array<char, 1024> line{};
  while (std::fgets(line.data(), line.size(), file) != nullptr) {
    for (const auto& [field, bytes] : fields) {
      if (!std::string_view(line.data()).starts_with(field)) continue;
      *bytes += std::strtoull(line.data() + field.size(), nullptr, 10) * 1024;
      ++found;
    }
  }
  std::fclose(file);
  return found;
}

}  // namespace

std::optional<ProcessMemory> process_memory(pid_t process) {
  ProcessMemory memory;
  const auto found = read_fields(process, "status",
                                 {{"RssAnon:", &memory.anonymous_bytes},
                                  {"VmSwap:", &memory.anonymous_bytes},
                                  {"VmPTE:", &memory.table_bytes}});
  if (!found || *found == 0) return std::nullopt;
  return memory;
}

std::optional<uint64_t> proportional_bytes(pid_t process) {
  uint64_t bytes = 0, dirty = 0;
  const auto found = read_fields(process, "smaps_rollup", {{"Pss_Anon:", &bytes}, {"SwapPss:", &bytes}});
  if (found && *found == 2) return bytes;
  // An older host reports only the process's exclusive memory.
  if (read_fields(process, "smaps_rollup", {{"Private_Dirty:", &dirty}}).value_or(0) == 0)
    return std::nullopt;
  return dirty;
}

}  // namespace membrane::linux
