// Executable memory: one reserved range for the whole process, mapped twice (W^X): code is
// written through one mapping and runs in the other. Blocks are given back and used again,
// so that a small module costs no system call.
//
// Threads: all functions may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace membrane::engine::native {

// Code in the arena. Movable; gives its block back when it is destroyed.
class CodeBlock {
 public:
  CodeBlock() = default;
  CodeBlock(const uint8_t* code, size_t bytes, bool is_of_file = false)
      : code_(code), bytes_(bytes), is_of_file_(is_of_file) {}
  ~CodeBlock();
  CodeBlock(CodeBlock&& other) noexcept
      : code_(std::exchange(other.code_, nullptr)), bytes_(other.bytes_), is_of_file_(other.is_of_file_) {}
  CodeBlock& operator=(CodeBlock&&) = delete;

  [[nodiscard]] const uint8_t* code() const { return code_; }  // null when there is no room
  [[nodiscard]] size_t size() const { return bytes_; }

 private:
  const uint8_t* code_ = nullptr;
  size_t bytes_ = 0;
  bool is_of_file_ = false;
};

// Writes code into the arena, at the place where it will run.
class CodeWriter {
 public:
  explicit CodeWriter(size_t expected_bytes);
  ~CodeWriter();  // what was not finished is given back
  CodeWriter(const CodeWriter&) = delete;
  CodeWriter& operator=(const CodeWriter&) = delete;

  // False when the arena is full or cannot be had on this system; nothing was written then.
  bool append(std::span<const uint8_t> code);
  bool align(size_t bytes);  // a power of two; the gap is int3
  void put32(size_t at, uint32_t value);
  [[nodiscard]] size_t size() const { return used_; }
  // The block with all that was written, of its exact size. The writer is empty then.
  CodeBlock finish();

 private:
  bool grow(size_t least);
  void drop();
  void touch_ahead();

  size_t at_ = 0, room_ = 0, used_ = 0;
  size_t touched_ = 0;  // up to here pages were requested, where that pays
};

// A block with a copy of `code`. One without code when there is no room.
CodeBlock publish(std::span<const uint8_t> code);

// A block that is mapped from a file, whose bytes at `offset`, a multiple of the page size, must not change any
// more. One without code when there is no room.
CodeBlock map_code(int file, uint64_t offset, size_t bytes);

// Reserves the arena, for a process that will not be able to do that at the first use.
void prepare_arena();
// After fork(), in the child, which has one thread: from here on it writes and runs pages of its own, and no longer those
// of its parent. False when the system refuses: the child must not run guests then.
[[nodiscard]] bool separate_arena();

// Whether `pc` is in the arena. Safe in signal handlers.
bool in_arena(const void* pc);

}  // namespace membrane::engine::native
