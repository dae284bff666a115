// Reads and writes of guest memory by the interpreter.
//
// On x86-64 and AArch64 an access is one machine instruction without a bounds check: what
// misses the memory faults in its region (memory.h), and interpreted_code.cc finds the interpreter's
// registers where the constraints below pin them, which is where calls pass them:
//
//   x86-64    ip in rdi     fp in rsi     fuel in rdx
//   AArch64   ip in x0      fp in x1      fuel in x2
//
// Elsewhere, and where MEMBRANE_EXPLICIT_BOUNDS is set (as under ThreadSanitizer), the address
// is compared with the size first.
//
// Threads: as the memory's.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#if (defined(__x86_64__) || defined(__aarch64__)) && !defined(MEMBRANE_EXPLICIT_BOUNDS)
#define MEMBRANE_GUARD_PAGES 1
#else
#define MEMBRANE_GUARD_PAGES 0
#endif

#define MEMBRANE_INLINE inline __attribute__((always_inline))

namespace membrane::engine {

union Word;  // code.h

#if MEMBRANE_GUARD_PAGES && defined(__x86_64__)

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

#elif MEMBRANE_GUARD_PAGES

// The arguments of the functions below, where the signal handler looks for them: no constraint names one
// register here, but a variable can.
#define MEMBRANE_PINNED                          \
  register const Word* pinned_ip asm("x0") = ip; \
  register uint64_t* pinned_fp asm("x1") = fp;   \
  register int64_t pinned_fuel asm("x2") = fuel
#define MEMBRANE_PLACE [m] "r"(memory), [a] "r"(address), "r"(pinned_ip), "r"(pinned_fp), "r"(pinned_fuel)
#define MEMBRANE_LOAD(instruction, constraint)                                                   \
  asm volatile(instruction ", [%[m], %[a]]" : [v] constraint(value) : MEMBRANE_PLACE : "memory")

template <typename T>
MEMBRANE_INLINE T load(const uint8_t* memory, uint64_t address, const Word* ip, uint64_t* fp, int64_t fuel) {
  MEMBRANE_PINNED;
  if constexpr (std::is_floating_point_v<T> || sizeof(T) == 16) {
    T value;
    if constexpr (sizeof(T) == 16) MEMBRANE_LOAD("ldr %q[v]", "=w");
    else if constexpr (sizeof(T) == 8) MEMBRANE_LOAD("ldr %d[v]", "=w");
    else MEMBRANE_LOAD("ldr %s[v]", "=w");
    return value;
  } else {
    uint64_t value;  // a write of 32 bits clears the others
    if constexpr (sizeof(T) == 1) MEMBRANE_LOAD("ldrb %w[v]", "=r");
    else if constexpr (sizeof(T) == 2) MEMBRANE_LOAD("ldrh %w[v]", "=r");
    else if constexpr (sizeof(T) == 4) MEMBRANE_LOAD("ldr %w[v]", "=r");
    else MEMBRANE_LOAD("ldr %x[v]", "=r");
    return static_cast<T>(value);
  }
}

// The architecture allows a store across the memory's end to write the part before the end, and then
// fault. So the same bytes are read first, and the read faults.
#define MEMBRANE_STORE(read, write, constraint)                 \
  asm volatile(read ", [%[m], %[a]]\n\t" write ", [%[m], %[a]]" \
               :                                                \
               : [v] constraint(value), MEMBRANE_PLACE          \
               : "memory")

template <typename T>
MEMBRANE_INLINE void store(uint8_t* memory, uint64_t address, T value, const Word* ip, uint64_t* fp,
                           int64_t fuel) {
  MEMBRANE_PINNED;
  if constexpr (sizeof(T) == 16) {
    T before;
    asm volatile("ldr %q[b], [%[m], %[a]]\n\tstr %q[v], [%[m], %[a]]"
                 : [b] "=&w"(before)
                 : [v] "w"(value), MEMBRANE_PLACE
                 : "memory");
  } else if constexpr (std::is_same_v<T, double>) {
    MEMBRANE_STORE("ldr xzr", "str %d[v]", "w");
  } else if constexpr (std::is_same_v<T, float>) {
    MEMBRANE_STORE("ldr wzr", "str %s[v]", "w");
  } else if constexpr (sizeof(T) == 1) {
    asm volatile("strb %w[v], [%[m], %[a]]" : : [v] "r"(value), MEMBRANE_PLACE : "memory");
  } else if constexpr (sizeof(T) == 2) {
    MEMBRANE_STORE("ldrh wzr", "strh %w[v]", "r");
  } else if constexpr (sizeof(T) == 4) {
    MEMBRANE_STORE("ldr wzr", "str %w[v]", "r");
  } else {
    MEMBRANE_STORE("ldr xzr", "str %x[v]", "r");
  }
}

#undef MEMBRANE_STORE
#undef MEMBRANE_LOAD
#undef MEMBRANE_PLACE
#undef MEMBRANE_PINNED

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
