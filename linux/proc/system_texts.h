// The texts of /proc and /proc/sys about the machine. Threads: the kernel's thread.
#pragma once

#include <string>

#include "linux/kernel/kernel.h"

namespace membrane::linux {

std::string meminfo_text(Kernel& kernel);
std::string cpuinfo_text();
std::string stat_text(Kernel& kernel);
std::string uptime_text(Kernel& kernel);
std::string loadavg_text(Kernel& kernel);
std::string version_text();
std::string vmstat_text(Kernel& kernel);
std::string uuid_text(Entropy& entropy);  // a random one

}  // namespace membrane::linux
