// How deep Python's C functions may call themselves. CPython is built for the smallest of stacks here, 128 KiB, and would
// use no more of the module's sixteen megabytes: two hundred calls of a cached function, or fifty `elif`.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <span>

namespace membrane::sandbox {

// Lets the main thread of an interpreter that has just started use a megabyte of its stack. Where the interpreter is not
// as expected, nothing changes.
void widen_python_stack(std::span<uint8_t> memory, uint32_t runtime);

}  // namespace membrane::sandbox
