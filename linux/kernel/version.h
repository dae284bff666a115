// What the kernel reports about itself and its machine. Threads: any.
#pragma once

#include <string_view>

namespace membrane::linux {

constexpr std::string_view kKernelRelease = "6.1.0-membrane", kKernelVersion = "#1 SMP";
constexpr int kProcessors = 2;  // like a small machine

}  // namespace membrane::linux
