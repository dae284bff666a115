// Patched call sites of a guest process: where `mov $number, %eax; syscall` is in code of a file, the `mov`
// becomes a jump to a gate (stub/layout.h), which reaches the stub without a signal. The `syscall` stays, for
// jumps to it from elsewhere.
//
// This class does the bookkeeping: which code may be patched, and which sites are hot or patched. TrapSpace
// writes the bytes.
//
// A site is patched only while its process has one thread, which is stopped, and only in a private mapping of
// a file that cannot be written. The kernel sees the original code: code that reads a guest's memory for the
// kernel calls restore() on the result.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "linux/platform/trap/stub/layout.h"

namespace membrane::linux {

class CallSites {
 public:
  static constexpr size_t kBytes = 7, kPatched = 5;  // the size of a site; of its first instruction
  using Original = std::array<std::byte, kPatched>;

  // A private mapping of a file, to be read and executed.
  void add_code(uint64_t address, uint64_t length);
  // These addresses no longer contain such code. Returns and forgets the patched sites there.
  std::vector<std::pair<uint64_t, Original>> remove(uint64_t address, uint64_t length);
  // Forgets all patched sites; the code may be patched again.
  std::vector<std::pair<uint64_t, Original>> remove_patches();
  void clear();

  // Counts a call that came from the site by a signal. Returns whether to patch it now.
  bool count(uint64_t site);
  // Whether the bytes before and at a site form a site, of a call with this number. `before` has three bytes.
  static bool is_site(std::span<const std::byte> before, std::span<const std::byte> site, uint64_t number);
  [[nodiscard]] bool is_patched(uint64_t site) const { return patched_.contains(site); }
  // Returns the number of its gate; nothing when there are too many.
  std::optional<uint32_t> add(uint64_t site, const Original& original);
  // The site whose gate contains an address.
  [[nodiscard]] std::optional<uint64_t> site_of_gate(uint64_t address) const;

  // Replaces patched bytes that were read by the original ones.
  void restore(uint64_t address, std::span<std::byte> bytes) const;

 private:
  static constexpr uint32_t kHot = 4;  // calls by signal
  struct Patched {
    Original original = {};
    uint32_t gate = 0;
  };
  struct Counter {
    uint64_t site = 0;
    uint32_t calls = 0;
  };

  [[nodiscard]] bool is_code(uint64_t address, uint64_t length) const;
  std::vector<std::pair<uint64_t, Original>> forget(uint64_t address, uint64_t end);

  std::map<uint64_t, uint64_t> code_;  // begin, end
  std::map<uint64_t, Patched> patched_;
  std::array<uint64_t, kTrapGates> gates_ = {};  // the sites; 0: none
  uint32_t gates_used_ = 0;
  std::array<Counter, 64> counters_ = {};
};

// The code of a gate. `answer` selects the control page's answer that it returns (answer_of()); -1: it goes
// to the stub, at `entry`.
std::array<std::byte, kTrapGateBytes> gate_code(uint32_t gate, uint64_t site, uint32_t number, int answer,
                                                uint64_t entry);
// The jump from the site to its gate; nothing where it is too far.
std::optional<CallSites::Original> jump_to_gate(uint64_t site, uint32_t gate);
// The index of a call's answer; -1: none.
int answer_of(uint64_t number);

}  // namespace membrane::linux
