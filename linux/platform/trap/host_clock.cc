#include "linux/platform/trap/host_clock.h"

#include <elf.h>
#include <sys/auxv.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include "linux/platform/trap/stub/layout.h"

namespace membrane::linux {
namespace {

// The offset of the function in the host's vdso, which this process has too. 0: not found.
uint64_t offset_of_clock_gettime() {
  const auto* const image = reinterpret_cast<const std::byte*>(getauxval(AT_SYSINFO_EHDR));
  if (image == nullptr) return 0;
  const auto* const header = reinterpret_cast<const Elf64_Ehdr*>(image);
  const auto* const sections = reinterpret_cast<const Elf64_Shdr*>(image + header->e_shoff);
  for (int i = 0; i < header->e_shnum; ++i) {
    if (sections[i].sh_type != SHT_DYNSYM || sections[i].sh_link >= header->e_shnum) continue;
    const auto* const symbols = reinterpret_cast<const Elf64_Sym*>(image + sections[i].sh_offset);
    const auto* const names = reinterpret_cast<const char*>(image + sections[sections[i].sh_link].sh_offset);
    for (uint64_t each = 0; each < sections[i].sh_size / sizeof *symbols; ++each)
      if (names + symbols[each].st_name == std::string_view("__vdso_clock_gettime"))
        return symbols[each].st_value;
  }
  return 0;
}

}  // namespace

HostClock host_clock_of(pid_t process) {
  constexpr uint64_t kLowest = TRAP_STACKS + kTrapSlots * TRAP_STACK_SIZE;
  const uint64_t offset = offset_of_clock_gettime();
  std::FILE* const maps = std::fopen(("/proc/" + std::to_string(process) + "/maps").c_str(), "re");
  if (maps == nullptr) return {};
  HostClock clock;
  bool is_one_range = true;
  std::array<char, 512> line{};
  while (std::fgets(line.data(), line.size(), maps) != nullptr) {
    unsigned long begin = 0, end = 0;
    const bool is_image = std::strstr(line.data(), "[vdso]") != nullptr;
    if (!is_image && std::strstr(line.data(), "[vvar") == nullptr) continue;
    if (std::sscanf(line.data(), "%lx-%lx", &begin, &end) != 2) continue;
    if (clock.begin == 0) clock.begin = begin;
    else is_one_range &= begin == clock.end;
    clock.end = end;
    if (is_image) clock.clock_gettime = begin + offset;
  }
  std::fclose(maps);
  const bool is_there = offset != 0 && clock.clock_gettime != 0 && is_one_range;
  return is_there && clock.begin >= kLowest && clock.end <= TRAP_TOP ? clock : HostClock{};
}

}  // namespace membrane::linux
