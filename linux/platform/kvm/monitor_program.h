// The program of the monitors (monitor/), as bytes of an ELF file. Empty on machines other than x86-64.
#pragma once

#include <string_view>

namespace membrane::linux {

extern const std::string_view kMonitorProgram;

}  // namespace membrane::linux
