// The memory of CPython, read from outside by the offsets that it keeps there for debuggers (_Py_DebugOffsets).
//
// The memory belongs to the program and is not trusted: what is read may be anything, and reading it terminates.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>

namespace membrane::sandbox {

// The index of the 64-bit word of an offset, counted from the cookie.
enum PythonOffset : uint32_t {
  kOfVersion = 1,
  kFirstInterpreter = 5,
  kFirstThread = 9,
  kCurrentFrame = 26,
  kPreviousFrame = 40,
  kExecutable = 41,
  kInstruction = 42,
  kOwner = 44,
  kFileName = 48,
  kQualifiedName = 50,
  kLines = 51,
  kFirstLine = 52,
  kInstructions = 56,
};

class PythonMemory {
 public:
  PythonMemory(std::span<const uint8_t> memory, uint32_t runtime) : memory_(memory), runtime_(runtime) {}

  [[nodiscard]] uint8_t byte(uint64_t at) const { return at < memory_.size() ? memory_[at] : 0; }
  [[nodiscard]] uint32_t word(uint64_t at) const { return read<uint32_t>(at); }
  [[nodiscard]] uint64_t offset(PythonOffset which) const {
    return read<uint64_t>(runtime_ + uint64_t{8} * which);
  }
  [[nodiscard]] uint32_t field(uint32_t object, PythonOffset which) const {
    const uint64_t offset = this->offset(which);
    return object == 0 || offset > memory_.size() ? 0 : word(object + offset);
  }

  // A str, cut to 200 characters.
  [[nodiscard]] std::string text(uint32_t object) const;

 private:
  template <typename T>
  [[nodiscard]] T read(uint64_t at) const {
    T value = 0;
    if (at <= memory_.size() && sizeof value <= memory_.size() - at)
      std::memcpy(&value, memory_.data() + at, sizeof value);
    return value;
  }

  std::span<const uint8_t> memory_;
  uint32_t runtime_;
};

// The address of _PyRuntime, which has the offsets; 0 when there is none of a known version.
uint32_t find_python_runtime(std::span<const uint8_t> memory);

}  // namespace membrane::sandbox
