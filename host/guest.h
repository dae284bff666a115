// The program, as a capability sees it.
//
// A string in the program's memory is its length in bytes as a u32, little endian, followed by the bytes; a pointer
// to it is the address of the length. Nothing from the program is trusted: each pointer and each length is checked
// against the memory.
//
// The engine implements Guest over an instance; tests over a vector (guest_testing.h).
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "host/errno.h"
#include "host/host_memory.h"

namespace membrane::host {

enum class Stream : uint8_t { kStdout, kStderr };

class Guest {
 public:
  virtual ~Guest() = default;

  // The current linear memory. Valid until allocate() is called or the program continues.
  virtual std::span<uint8_t> memory() = 0;
  // Allocates `bytes`, aligned to 8, from the bump heap; ENOMEM when the memory's limit is reached.
  virtual HostResult<uint32_t> allocate(uint64_t bytes) = 0;

  // Takes fuel before something is done. False: there is not enough, and nothing was taken.
  [[nodiscard]] virtual bool charge(uint64_t fuel) = 0;
  // Takes fuel for something already done. When there is not enough, the fuel falls to 0 and the program stops at
  // its next instruction.
  virtual void owe(uint64_t fuel) = 0;
  // The largest amount that charge() would take.
  [[nodiscard]] virtual uint64_t fuel_left() const = 0;
  // The call needed more fuel than there is, after work was done for it: it will be repeated when there is more, so
  // its charge is refunded. A program that gets no more pays with all that it has left.
  virtual void fall_short(uint64_t charged) = 0;

  // Host memory used on its behalf. Default: what the host lends, whatever the size of the program's memory.
  virtual HostMemory& host_memory() { return lent_; }

  // Output of the program. `text` is UTF-8. False: the output limit is reached; the part that fits has been kept.
  [[nodiscard]] virtual bool print(Stream stream, std::string_view text) = 0;
  [[nodiscard]] virtual bool set_result(std::string_view text) = 0;
  [[nodiscard]] virtual bool submit(std::string_view answer) = 0;

  // The program's input.
  virtual std::string_view input() const = 0;
  virtual std::span<const std::string> arguments() const = 0;

  // The bytes of the string at `pointer`; EFAULT when it is not entirely inside the memory. The view is valid as
  // long as memory()'s.
  HostResult<std::string_view> read_string(uint32_t pointer);
  // Allocates a string with these bytes, which may be in the memory itself.
  HostResult<uint32_t> write_string(std::string_view bytes);

 private:
  HostMemory lent_;
};

// Allocates by advancing a mark; nothing is ever freed. The mark is the whole state.
class BumpHeap {
 public:
  static constexpr uint64_t kAlignment = 8;

  // The memory that contains the heap: a linear memory with its limits.
  class Space {
   public:
    virtual ~Space() = default;
    [[nodiscard]] virtual uint64_t size_bytes() const = 0;
    // Grows it to at least `bytes`. False: a limit prevents it.
    [[nodiscard]] virtual bool grow_to(uint64_t bytes) = 0;
  };

  // Starts at the program's __heap_base, or after its data.
  explicit BumpHeap(uint64_t start) : next_(align(start)) {}

  // ENOMEM when the space cannot grow that far.
  HostResult<uint32_t> allocate(Space& space, uint64_t bytes);

  // Address of the next allocation.
  [[nodiscard]] uint64_t next() const { return next_; }

 private:
  static constexpr uint64_t align(uint64_t address) { return (address + kAlignment - 1) & ~(kAlignment - 1); }

  uint64_t next_;
};

}  // namespace membrane::host
