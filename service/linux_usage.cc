#include "service/linux_usage.h"

#include <algorithm>
#include <charconv>
#include <ranges>
#include <string>
#include <string_view>

#include "service/linux_files.h"

namespace membrane::service {
namespace {

// From the text of /proc/ID/stat: the CPU time of the process and of the children that it waited for.
uint64_t cpu_us_in(std::string_view text) {
  constexpr size_t kFirst = 11, kLast = 14;  // after the name: utime, stime, cutime, cstime
  constexpr uint64_t kUsInTick = 10'000;
  const size_t name_end = text.rfind(')');
  if (name_end == text.npos) return 0;
  uint64_t ticks = 0;
  size_t at = 0;
  for (const auto part : std::views::split(text.substr(std::min(name_end + 2, text.size())), ' ')) {
    uint64_t value = 0;
    const std::string_view word(part.begin(), part.end());
    if (at >= kFirst && at <= kLast) std::from_chars(word.data(), word.data() + word.size(), value);
    ticks += value;
    if (at++ == kLast) break;
  }
  return ticks * kUsInTick;
}

// For all existing processes.
uint64_t cpu_us_of_all(linux::LiveComputer& computer) {
  constexpr uint64_t kMostTextBytes = 4096;
  uint64_t all = 0;
  const auto listed = computer.list("/proc");
  if (!listed) return 0;
  for (const linux::FileFacts& each : *listed) {
    const std::string name = each.path.substr(each.path.rfind('/') + 1);
    if (name.find_first_not_of("0123456789") != name.npos) continue;
    if (const auto text = computer.read_file("/proc/" + name + "/stat", 0, kMostTextBytes))
      all += cpu_us_in(*text);
  }
  return all;
}

}  // namespace

Answer<GuestUsage> usage_of(linux::LiveComputer& computer) {
  const auto usage = computer.usage();
  if (!usage) return std::unexpected(computer_error(usage.error()));
  return GuestUsage{.memory_bytes = usage->memory_bytes,
                    .disk_bytes = usage->disk_bytes,
                    .cpu_us = cpu_us_of_all(computer)};
}

}  // namespace membrane::service
