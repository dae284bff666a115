// Call sites of a guest process that are patched: where `mov $number, %eax; syscall` stands in code of a file, the `mov` becomes a
// jump to a gate (stub/layout.h), which comes to the stub without a signal. The `syscall` stays, for whoever comes to it otherwise.
//
// This class does the bookkeeping: which code may be patched, which sites are hot, which are patched. TrapSpace writes the bytes.
//
// A site is patched only while its process has one thread, which is stopped, in a private mapping of a file that cannot be written.
// The kernel sees the code as it was: whatever reads a guest's memory for it calls restore() on what it has read.
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
  static constexpr size_t kBytes = 7, kPatched = 5;  // of a site; of its first instruction
  using Original = std::array<std::byte, kPatched>;

  // A private mapping of a file, to be read and executed.
  void add_code(uint64_t address, uint64_t length);
  // These addresses are not such code any more. Returns the patched sites there, which are forgotten.
  std::vector<std::pair<uint64_t, Original>> remove(uint64_t address, uint64_t length);
  // All patched sites are forgotten; the code may be patched again.
  std::vector<std::pair<uint64_t, Original>> remove_patches();
  void clear();

  // A call has come from the site by a signal. Whether it is time to patch it.
  bool count(uint64_t site);
  // The bytes before a site and of it: whether they are one, of a call with this number. `before` has three bytes.
  static bool is_site(std::span<const std::byte> before, std::span<const std::byte> site, uint64_t number);
  [[nodiscard]] bool is_patched(uint64_t site) const { return patched_.contains(site); }
  // The number of the gate for it; nothing when there are too many.
  std::optional<uint32_t> add(uint64_t site, const Original& original);
  // The site whose gate an address is in.
  [[nodiscard]] std::optional<uint64_t> site_of_gate(uint64_t address) const;

  // Puts the original bytes where patched ones were read.
  void restore(uint64_t address, std::span<std::byte> bytes) const;

 private:
  static constexpr uint32_t kHot = 4;  // calls by a signal
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

// The code of a gate. `answer` is which of the control page's answers it gives (answer_of()); -1: it goes to the stub, at `entry`.
std::array<std::byte, kTrapGateBytes> gate_code(uint32_t gate, uint64_t site, uint32_t number, int answer,
                                                uint64_t entry);
// The jump from the site to its gate; nothing where it is too far.
std::optional<CallSites::Original> jump_to_gate(uint64_t site, uint32_t gate);
// Which of the answers a call's is; -1: none.
int answer_of(uint64_t number);

}  // namespace membrane::linux
