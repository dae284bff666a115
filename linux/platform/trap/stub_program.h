// The program of the stubs (stub/), as bytes of an ELF file. Empty on machines other than x86-64.
#pragma once

#include <span>

namespace membrane::linux {

extern const std::span<const unsigned char> kStubProgram;

}  // namespace membrane::linux
