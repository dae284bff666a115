#include "linux/platform/trap/call_sites.h"

#include <sys/syscall.h>

#include <algorithm>
#include <cstring>

namespace membrane::linux {
namespace {

constexpr std::byte kMoveToEax{0xb8};
constexpr std::array kSyscall = {std::byte{0x0f}, std::byte{0x05}};
constexpr uint64_t kAnswersAt = TRAP_CONTROLS + offsetof(TrapControl, answers);

uint64_t address_of(uint32_t gate) { return TRAP_GATES + uint64_t{gate} * kTrapGateBytes; }

// The displacement in an instruction that ends at `next`; nothing where the target is too far.
std::optional<int32_t> distance(uint64_t next, uint64_t to) {
  const auto far = static_cast<int64_t>(to - next);
  if (far != static_cast<int32_t>(far)) return std::nullopt;
  return static_cast<int32_t>(far);
}

bool is_in(uint8_t byte, std::initializer_list<uint8_t> list) {
  return std::ranges::find(list, byte) != list.end();
}

// Whether the byte after these may belong to the instruction that they begin, and so is not a `mov` of its
// own: after a prefix, or a byte that takes operands. A memory operand of a small number would have faulted,
// so only instructions that access none count.
bool may_go_on(std::span<const std::byte> before) {
  const auto first = std::to_integer<uint8_t>(before[0]), second = std::to_integer<uint8_t>(before[1]),
             last = std::to_integer<uint8_t>(before[2]);
  const bool is_prefix = (last >= 0x40 && last <= 0x4f) || is_in(last, {0x66, 0x67, 0xf2, 0xf3});
  const bool is_address_only = last == 0x8d || (second == 0x0f && is_in(last, {0x0d, 0x18, 0x1f}));
  const bool is_scaled = (last & 0xc7) == 0x84;  // [base + index + 4 bytes]
  const bool is_stored =
      (last & 0xc0) == 0x40 && is_in(second, {0xc7, 0x81, 0x69});  // [base + this byte] = 4 bytes
  const bool is_stored_scaled = (second & 0xc7) == 0x44 && is_in(first, {0xc7, 0x81, 0x69});
  return is_prefix || is_address_only || is_scaled || is_stored || is_stored_scaled;
}

template <typename T>
void put(std::span<std::byte> code, size_t at, T value) {
  std::memcpy(code.data() + at, &value, sizeof value);
}

}  // namespace

void CallSites::add_code(uint64_t address, uint64_t length) { code_[address] = address + length; }

std::vector<std::pair<uint64_t, CallSites::Original>> CallSites::remove(uint64_t address, uint64_t length) {
  const uint64_t end = address + length;
  auto each = code_.upper_bound(address);
  if (each != code_.begin() && std::prev(each)->second > address) --each;
  while (each != code_.end() && each->first < end) {
    const auto [begin, its_end] = *each;
    each = code_.erase(each);
    if (begin < address) code_[begin] = address;
    if (its_end > end) each = code_.emplace(end, its_end).first;
  }
  return forget(address, end);
}

std::vector<std::pair<uint64_t, CallSites::Original>> CallSites::remove_patches() {
  counters_ = {};
  return forget(0, TRAP_STUB);
}

std::vector<std::pair<uint64_t, CallSites::Original>> CallSites::forget(uint64_t address, uint64_t end) {
  std::vector<std::pair<uint64_t, Original>> sites;
  auto patched = patched_.lower_bound(address < kPatched ? 0 : address - kPatched + 1);
  for (; patched != patched_.end() && patched->first < end; patched = patched_.erase(patched)) {
    sites.emplace_back(patched->first, patched->second.original);
    gates_[patched->second.gate] = 0;
  }
  if (patched_.empty()) gates_used_ = 0;
  return sites;
}

void CallSites::clear() {
  code_.clear();
  patched_.clear();
  gates_.fill(0);
  gates_used_ = 0;
  counters_ = {};
}

bool CallSites::is_code(uint64_t address, uint64_t length) const {
  const auto next = code_.upper_bound(address);
  return next != code_.begin() && std::prev(next)->second >= address + length;
}

bool CallSites::count(uint64_t site) {
  Counter& counter = counters_[(site ^ site >> 6) % counters_.size()];
  if (counter.site != site) counter = {.site = site};
  if (++counter.calls != kHot) return false;
  return is_code(site - 3, kBytes + 3) && !is_patched(site);
}

bool CallSites::is_site(std::span<const std::byte> before, std::span<const std::byte> site, uint64_t number) {
  uint32_t immediate = 0;
  std::memcpy(&immediate, site.data() + 1, sizeof immediate);
  return site[0] == kMoveToEax && immediate == number &&
         std::ranges::equal(site.subspan(kPatched), kSyscall) && !may_go_on(before);
}

std::optional<uint32_t> CallSites::add(uint64_t site, const Original& original) {
  if (gates_used_ == kTrapGates) return std::nullopt;
  gates_[gates_used_] = site;
  patched_[site] = {.original = original, .gate = gates_used_};
  return gates_used_++;
}

std::optional<uint64_t> CallSites::site_of_gate(uint64_t address) const {
  if (address < TRAP_GATES || address >= address_of(kTrapGates)) return std::nullopt;
  const uint64_t site = gates_[(address - TRAP_GATES) / kTrapGateBytes];
  return site == 0 ? std::nullopt : std::optional(site);
}

void CallSites::restore(uint64_t address, std::span<std::byte> bytes) const {
  const uint64_t end = address + bytes.size();
  auto each = patched_.lower_bound(address < kPatched ? 0 : address - kPatched + 1);
  for (; each != patched_.end() && each->first < end; ++each)
    for (size_t i = 0; i < kPatched; ++i)
      if (each->first + i >= address && each->first + i < end)
        bytes[each->first + i - address] = each->second.original[i];
}

std::array<std::byte, kTrapGateBytes> gate_code(uint32_t gate, uint64_t site, uint32_t number, int answer,
                                                uint64_t entry) {
  std::array<std::byte, kTrapGateBytes> code;
  code.fill(std::byte{0xcc});
  const uint64_t at = address_of(gate);
  put(code, 0, std::array<uint8_t, 3>{0x48, 0x8d, 0x0d});  // lea …(%rip), %rcx
  put(code, 3, distance(at + 7, site + CallSites::kBytes).value_or(0));
  if (answer >= 0) {
    put(code, 7, std::array<uint8_t, 2>{0x8b, 0x05});  // mov …(%rip), %eax
    put(code, 9, distance(at + 13, kAnswersAt + 4 * static_cast<uint64_t>(answer)).value_or(0));
    put(code, 13, std::array<uint8_t, 2>{0xff, 0xe1});  // jmp *%rcx
  } else {
    put(code, 7, kMoveToEax);
    put(code, 8, number);
    put(code, 12, uint8_t{0xe9});  // jmp …
    put(code, 13, distance(at + 17, entry).value_or(0));
  }
  return code;
}

std::optional<CallSites::Original> jump_to_gate(uint64_t site, uint32_t gate) {
  const auto far = distance(site + CallSites::kPatched, address_of(gate));
  if (!far || !distance(address_of(gate) + 7, site + CallSites::kBytes)) return std::nullopt;
  CallSites::Original jump;
  put(jump, 0, uint8_t{0xe9});
  put(jump, 1, *far);
  return jump;
}

int answer_of(uint64_t number) {
  constexpr std::array kNumbers = {SYS_getpid,  SYS_gettid, SYS_getppid, SYS_getuid,
                                   SYS_geteuid, SYS_getgid, SYS_getegid};
  const auto found = std::ranges::find(kNumbers, static_cast<long>(number));
  return found == kNumbers.end() ? -1 : static_cast<int>(found - kNumbers.begin());
}

}  // namespace membrane::linux
