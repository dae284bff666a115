#include "linux/proc/system_texts.h"

#include <cpuid.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "linux/kernel/memory.h"
#include "linux/kernel/version.h"
#include "linux/proc/text.h"

namespace membrane::linux {
namespace {

constexpr int64_t kTicksPerSecond = 100;

struct CpuidLeaf {
  unsigned a = 0, b = 0, c = 0, d = 0;
};
CpuidLeaf cpuid(unsigned leaf, unsigned sub = 0) {
  CpuidLeaf got;
  if (__get_cpuid_count(leaf, sub, &got.a, &got.b, &got.c, &got.d) == 0) return {};
  return got;
}

struct CpuFlag {
  unsigned leaf;
  char word;
  int bit;
  const char* name;
};
constexpr std::array kFlags = std::to_array<CpuFlag>({
    {1, 'd', 0, "fpu"},
    {1, 'd', 4, "tsc"},
    {1, 'd', 8, "cx8"},
    {1, 'd', 15, "cmov"},
    {1, 'd', 19, "clflush"},
    {1, 'd', 23, "mmx"},
    {1, 'd', 24, "fxsr"},
    {1, 'd', 25, "sse"},
    {1, 'd', 26, "sse2"},
    {1, 'd', 28, "ht"},
    {0x80000001, 'd', 11, "syscall"},
    {0x80000001, 'd', 20, "nx"},
    {0x80000001, 'd', 29, "lm"},
    {1, 'c', 0, "pni"},
    {1, 'c', 1, "pclmulqdq"},
    {1, 'c', 9, "ssse3"},
    {1, 'c', 12, "fma"},
    {1, 'c', 13, "cx16"},
    {1, 'c', 19, "sse4_1"},
    {1, 'c', 20, "sse4_2"},
    {1, 'c', 22, "movbe"},
    {1, 'c', 23, "popcnt"},
    {1, 'c', 25, "aes"},
    {1, 'c', 26, "xsave"},
    {1, 'c', 28, "avx"},
    {1, 'c', 29, "f16c"},
    {1, 'c', 30, "rdrand"},
    {1, 'c', 31, "hypervisor"},
    {0x80000001, 'c', 0, "lahf_lm"},
    {0x80000001, 'c', 5, "abm"},
    {7, 'b', 0, "fsgsbase"},
    {7, 'b', 3, "bmi1"},
    {7, 'b', 5, "avx2"},
    {7, 'b', 8, "bmi2"},
    {7, 'b', 9, "erms"},
    {7, 'b', 16, "avx512f"},
    {7, 'b', 17, "avx512dq"},
    {7, 'b', 18, "rdseed"},
    {7, 'b', 19, "adx"},
    {7, 'b', 28, "avx512cd"},
    {7, 'b', 29, "sha_ni"},
    {7, 'b', 30, "avx512bw"},
    {7, 'b', 31, "avx512vl"},
});

std::string cpu_flags() {
  std::string text;
  for (const CpuFlag& flag : kFlags) {
    const CpuidLeaf leaf = cpuid(flag.leaf);
    const unsigned word = flag.word == 'b' ? leaf.b : flag.word == 'c' ? leaf.c : leaf.d;
    if ((word >> flag.bit & 1) != 0) text.append(text.empty() ? "" : " ").append(flag.name);
  }
  return text;
}

std::string cpu_vendor() {
  const CpuidLeaf leaf = cpuid(0);
  std::array<char, 13> name = {};
  std::memcpy(name.data(), &leaf.b, 4);
  std::memcpy(name.data() + 4, &leaf.d, 4);
  std::memcpy(name.data() + 8, &leaf.c, 4);
  return name.data();
}

std::string cpu_model_name() {
  std::array<char, 49> name = {};
  for (unsigned i = 0; i < 3; ++i) {
    const CpuidLeaf leaf = cpuid(0x80000002 + i);
    std::memcpy(name.data() + 16 * i, &leaf, 16);
  }
  const std::string_view text(name.data());
  return std::string(text.substr(std::min(text.find_first_not_of(' '), text.size())));
}

}  // namespace

static uint64_t memory_in_use(Kernel& kernel) {
  uint64_t used = 0;
  for (const auto& [id, process] : kernel.processes())
    if (process->memory != nullptr) used += process->memory->space().resident_bytes();
  return used;
}

std::string meminfo_text(Kernel& kernel) {
  const uint64_t all = kernel.options().limits.memory_bytes / 1024;
  const uint64_t used = std::min(memory_in_use(kernel) / 1024, all);
  struct Row {
    const char* name;
    uint64_t kilobytes;
  };
  const std::array<Row, 20> rows = {{{"MemTotal:", all},
                                     {"MemFree:", all - used},
                                     {"MemAvailable:", all - used},
                                     {"Buffers:", 0},
                                     {"Cached:", 0},
                                     {"SwapCached:", 0},
                                     {"Active:", used},
                                     {"Inactive:", 0},
                                     {"Active(anon):", used},
                                     {"Inactive(anon):", 0},
                                     {"SwapTotal:", 0},
                                     {"SwapFree:", 0},
                                     {"Dirty:", 0},
                                     {"Writeback:", 0},
                                     {"AnonPages:", used},
                                     {"Mapped:", 0},
                                     {"Shmem:", 0},
                                     {"Slab:", 0},
                                     {"CommitLimit:", all},
                                     {"Committed_AS:", used}}};
  std::string text;
  for (const Row& row : rows) text += text_of("%-15s %8lu kB\n", row.name, row.kilobytes);
  return text + "HugePages_Total:       0\nHugePages_Free:        0\nHugepagesize:       2048 kB\n";
}

std::string cpuinfo_text() {
  const CpuidLeaf leaf = cpuid(1);
  const unsigned family = (leaf.a >> 8 & 15) + (leaf.a >> 20 & 255);
  const unsigned model = (leaf.a >> 4 & 15) | (leaf.a >> 12 & 0xf0);
  std::string text;
  for (int i = 0; i < kProcessors; ++i)
    text += text_of(
        "processor\t: %d\nvendor_id\t: %s\ncpu family\t: %u\nmodel\t\t: %u\nmodel name\t: %s\nstepping\t: "
        "%u\n"
        "cpu MHz\t\t: 2000.000\nphysical id\t: 0\nsiblings\t: %d\ncore id\t\t: %d\ncpu cores\t: %d\nfpu\t\t: "
        "yes\n"
        "flags\t\t: %s\nbogomips\t: 4000.00\nclflush size\t: 64\ncache_alignment\t: 64\n"
        "address sizes\t: 46 bits physical, 48 bits virtual\n\n",
        i, cpu_vendor().c_str(), family, model, cpu_model_name().c_str(), leaf.a & 15, kProcessors, i,
        kProcessors, cpu_flags().c_str());
  return text;
}

std::string stat_text(Kernel& kernel) {
  const timespec up = kernel.now(CLOCK_MONOTONIC);
  const int64_t idle = up.tv_sec * kTicksPerSecond;
  std::string text = text_of("cpu  0 0 0 %ld 0 0 0 0 0 0\n", idle * kProcessors);
  for (int i = 0; i < kProcessors; ++i) text += text_of("cpu%d 0 0 0 %ld 0 0 0 0 0 0\n", i, idle);
  text += text_of("intr 0\nctxt 0\nbtime %ld\nprocesses %d\nprocs_running 1\nprocs_blocked 0\n",
                  kernel.now(CLOCK_REALTIME).tv_sec - up.tv_sec, kernel.last_id());
  return text;
}

std::string uptime_text(Kernel& kernel) {
  const timespec up = kernel.now(CLOCK_MONOTONIC);
  const long hundredths = up.tv_nsec / 10'000'000;
  return text_of("%ld.%02ld %ld.%02ld\n", up.tv_sec, hundredths, up.tv_sec * kProcessors, hundredths);
}

std::string loadavg_text(Kernel& kernel) {
  return text_of("0.00 0.00 0.00 1/%d %d\n", kernel.tasks(), kernel.last_id());
}

std::string vmstat_text(Kernel& kernel) {
  const uint64_t all = kernel.options().limits.memory_bytes / kPage;
  const uint64_t used = std::min(all, memory_in_use(kernel) / kPage);
  std::string text =
      text_of("nr_free_pages %llu\nnr_anon_pages %llu\n", static_cast<unsigned long long>(all - used),
              static_cast<unsigned long long>(used));
  for (const char* const none :
       {"nr_mapped", "nr_file_pages", "nr_dirty", "nr_writeback", "pgpgin", "pgpgout", "pswpin", "pswpout",
        "pgfault", "pgmajfault", "pgfree", "pgactivate", "pgdeactivate", "oom_kill"})
    text += std::string(none) + " 0\n";
  return text;
}

std::string version_text() {
  return text_of("Linux version %s (membrane) (gcc) %s\n", kKernelRelease.data(), kKernelVersion.data());
}

std::string uuid_text(Entropy& entropy) {
  std::array<uint8_t, 16> b = {};
  static_cast<void>(entropy.fill(std::as_writable_bytes(std::span(b))));
  b[6] = static_cast<uint8_t>((b[6] & 0x0f) | 0x40);
  b[8] = static_cast<uint8_t>((b[8] & 0x3f) | 0x80);
  return text_of("%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x\n", b[0], b[1], b[2],
                 b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

}  // namespace membrane::linux
