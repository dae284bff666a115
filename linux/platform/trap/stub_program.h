// The program of the stubs (stub/), as bytes of an ELF file. Empty on machines other than x86-64.
#pragma once

#include <string_view>

namespace membrane::linux {

extern const std::string_view kStubProgram;

}  // namespace membrane::linux
