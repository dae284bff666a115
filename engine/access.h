// Reads and writes of guest memory by the interpreter.
//
// On x86-64 an access is one machine instruction without a bounds check: what misses the
// memory faults in its region (memory.h), and fault.cc finds the interpreter's registers
// where the constraints below pin them:
//
//   ip in rdi     fp in rsi     fuel in rdx
//
// Elsewhere, where MEMBRANE_EXPLICIT_BOUNDS is set, and under ThreadSanitizer (which keeps
// signals for itself), the address is compared with the size first.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "engine/code.h"

#if defined(__x86_64__) && !defined(MEMBRANE_EXPLICIT_BOUNDS) && !defined(__SANITIZE_THREAD__)
#define MEMBRANE_GUARD_PAGES 1
#else
#define MEMBRANE_GUARD_PAGES 0
#endif

#define MEMBRANE_INLINE inline __attribute__((always_inline))

namespace membrane::engine {

#if MEMBRANE_GUARD_PAGES

template <typename T>
MEMBRANE_INLINE T load(const uint8_t* memory, uint64_t address, const Word* ip, uint64_t* fp, int64_t fuel) {
  if constexpr (std::is_same_v<T, double>) {
    double value;
    asm volatile("movsd (%[m],%[a]), %[v]"
                 : [v] "=x"(value)
                 : [m] "r"(memory), [a] "r"(address), "D"(ip), "S"(fp), "d"(fuel)
                 : "memory");
    return value;
  } else if constexpr (std::is_same_v<T, float>) {
    float value;
    asm volatile("movss (%[m],%[a]), %[v]"
                 : [v] "=x"(value)
                 : [m] "r"(memory), [a] "r"(address), "D"(ip), "S"(fp), "d"(fuel)
                 : "memory");
    return value;
  } else if constexpr (sizeof(T) == 16) {
    T value;
    asm volatile("movups (%[m],%[a]), %[v]"
                 : [v] "=x"(value)
                 : [m] "r"(memory), [a] "r"(address), "D"(ip), "S"(fp), "d"(fuel)
                 : "memory");
    return value;
  } else if constexpr (sizeof(T) == 1) {
    uint32_t value;
    asm volatile("movzbl (%[m],%[a]), %[v]"
                 : [v] "=r"(value)
                 : [m] "r"(memory), [a] "r"(address), "D"(ip), "S"(fp), "d"(fuel)
                 : "memory");
    return static_cast<T>(value);
  } else if constexpr (sizeof(T) == 2) {
    uint32_t value;
    asm volatile("movzwl (%[m],%[a]), %[v]"
                 : [v] "=r"(value)
                 : [m] "r"(memory), [a] "r"(address), "D"(ip), "S"(fp), "d"(fuel)
                 : "memory");
    return static_cast<T>(value);
  } else if constexpr (sizeof(T) == 4) {
    uint32_t value;
    asm volatile("movl (%[m],%[a]), %[v]"
                 : [v] "=r"(value)
                 : [m] "r"(memory), [a] "r"(address), "D"(ip), "S"(fp), "d"(fuel)
                 : "memory");
    return static_cast<T>(value);
  } else {
    uint64_t value;
    asm volatile("movq (%[m],%[a]), %[v]"
                 : [v] "=r"(value)
                 : [m] "r"(memory), [a] "r"(address), "D"(ip), "S"(fp), "d"(fuel)
                 : "memory");
    return static_cast<T>(value);
  }
}

template <typename T>
MEMBRANE_INLINE void store(uint8_t* memory, uint64_t address, T value, const Word* ip, uint64_t* fp,
                           int64_t fuel) {
  if constexpr (std::is_same_v<T, double>)
    asm volatile("movsd %[v], (%[m],%[a])"
                 :
                 : [v] "x"(value), [m] "r"(memory), [a] "r"(address), "D"(ip), "S"(fp), "d"(fuel)
                 : "memory");
  else if constexpr (std::is_same_v<T, float>)
    asm volatile("movss %[v], (%[m],%[a])"
                 :
                 : [v] "x"(value), [m] "r"(memory), [a] "r"(address), "D"(ip), "S"(fp), "d"(fuel)
                 : "memory");
  else if constexpr (sizeof(T) == 16)
    asm volatile("movups %[v], (%[m],%[a])"
                 :
                 : [v] "x"(value), [m] "r"(memory), [a] "r"(address), "D"(ip), "S"(fp), "d"(fuel)
                 : "memory");
  else if constexpr (sizeof(T) == 1)
    asm volatile("movb %[v], (%[m],%[a])"
                 :
                 : [v] "q"(value), [m] "r"(memory), [a] "r"(address), "D"(ip), "S"(fp), "d"(fuel)
                 : "memory");
  else if constexpr (sizeof(T) == 2)
    asm volatile("movw %[v], (%[m],%[a])"
                 :
                 : [v] "r"(value), [m] "r"(memory), [a] "r"(address), "D"(ip), "S"(fp), "d"(fuel)
                 : "memory");
  else if constexpr (sizeof(T) == 4)
    asm volatile("movl %[v], (%[m],%[a])"
                 :
                 : [v] "r"(value), [m] "r"(memory), [a] "r"(address), "D"(ip), "S"(fp), "d"(fuel)
                 : "memory");
  else
    asm volatile("movq %[v], (%[m],%[a])"
                 :
                 : [v] "r"(value), [m] "r"(memory), [a] "r"(address), "D"(ip), "S"(fp), "d"(fuel)
                 : "memory");
}

#else

// The caller has compared the address with the size.
template <typename T>
MEMBRANE_INLINE T load(const uint8_t* memory, uint64_t address, const Word*, uint64_t*, int64_t) {
  T value;
  std::memcpy(&value, memory + address, sizeof value);
  return value;
}

template <typename T>
MEMBRANE_INLINE void store(uint8_t* memory, uint64_t address, T value, const Word*, uint64_t*, int64_t) {
  std::memcpy(memory + address, &value, sizeof value);
}

#endif

}  // namespace membrane::engine
