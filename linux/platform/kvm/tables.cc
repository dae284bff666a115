#include "linux/platform/kvm/tables.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

namespace membrane::linux {
namespace {

constexpr uint64_t kPage = 4096, kLargePage = uint64_t{1} << 21, kWindow = uint64_t{1} << 30;
constexpr uint64_t kSlotBytes = uint64_t{64} << 20;
constexpr size_t kMostWindows = 480;  // so that 39 bits of physical address suffice
constexpr uint64_t kPresentBit = 1, kWriteBit = 2, kUserBit = 4, kUsedBits = 0x60, kLargeBit = 0x80;
constexpr uint64_t kNoExecuteBit = uint64_t{1} << 63, kAddressBits = 0x000ffffffffff000;
constexpr uint64_t kTableBits = kPresentBit | kWriteBit | kUserBit | kUsedBits;
// Bits of a page fault's error code.
constexpr uint64_t kWasWrite = 2, kWasFetch = 16;

uint64_t page_bits(int protection) {
  if (protection == PROT_NONE) return 0;
  return kPresentBit | kUserBit | kUsedBits | ((protection & PROT_WRITE) != 0 ? kWriteBit : 0) |
         ((protection & PROT_EXEC) != 0 ? 0 : kNoExecuteBit);
}

size_t index_of(uint64_t address, int level) { return address >> (12 + 9 * level) & 511; }

// The entry, with the other's rights added.
uint64_t widened(uint64_t entry, uint64_t other) {
  if ((entry & kPresentBit) == 0 || (other & kPresentBit) == 0) return entry | other;
  return ((entry | other) & ~kNoExecuteBit) | (entry & other & kNoExecuteBit);
}

}  // namespace

// ---- the machine's own memory ----

std::unique_ptr<GuestTables> GuestTables::make() {
  std::unique_ptr<GuestTables> tables(new GuestTables);
  return tables->prepare() ? std::move(tables) : nullptr;
}

std::unique_ptr<GuestTables> GuestTables::copy() const {
  std::unique_ptr<GuestTables> other = make();
  if (other == nullptr) return nullptr;
  other->areas_ = areas_;
  other->windows_ = windows_;
  other->slots_ = slots_;
  return other;
}

GuestTables::~GuestTables() {
  if (memory_ != nullptr) munmap(memory_, KVM_MACHINE_BYTES);
}

uint64_t* GuestTables::words(uint64_t physical) const {
  return reinterpret_cast<uint64_t*>(memory_ + physical);
}

bool GuestTables::prepare() {
  file_ = make_memory("membrane-machine", KVM_MACHINE_BYTES);
  if (!file_) return false;
  void* const memory =
      mmap(nullptr, KVM_MACHINE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file_.number(), 0);
  if (memory == MAP_FAILED) return false;
  memory_ = static_cast<std::byte*>(memory);
  // Segments numbered as in Linux; none for 32-bit code.
  uint64_t* const segments = words(KVM_GDT);
  segments[kKvmKernelCode / 8] = 0x00af9b000000ffff;
  segments[kKvmKernelCode / 8 + 1] = 0x00cf93000000ffff;
  segments[kKvmUserData / 8] = 0x00cff3000000ffff;
  segments[kKvmUserCode / 8] = 0x00affb000000ffff;
  for (uint64_t vector = 0; vector < KVM_VECTORS; ++vector) {
    constexpr uint64_t kBreakpoint = 3, kOverflow = 4;
    const uint64_t target = KVM_GATE_EXCEPTIONS + vector * 8;
    const uint64_t kind =
        vector == kBreakpoint || vector == kOverflow ? 0xee : 0x8e;  // guests may raise these
    uint64_t* const gate = words(KVM_IDT) + vector * 2;
    gate[0] = (target & 0xffff) | uint64_t{kKvmKernelCode} << 16 | kind << 40 | (target >> 16 & 0xffff) << 48;
    gate[1] = target >> 32;
  }
  // Each slot's task segment says where exception frames go: to the end of its 256 bytes.
  for (uint64_t slot = 0; slot < kTrapSlots; ++slot) {
    const uint64_t at = slot * KVM_SEGMENT_BYTES, stack = KVM_SYSTEM + KVM_SEGMENTS + at + KVM_SEGMENT_BYTES;
    std::memcpy(memory_ + KVM_SEGMENTS + at + 4, &stack, sizeof stack);
    const uint16_t no_ports = 0x68;
    std::memcpy(memory_ + KVM_SEGMENTS + at + 0x66, &no_ports, sizeof no_ports);
  }
  uint64_t* const table = words(KVM_SYSTEM_TABLE);
  for (uint64_t page = 0; page < KVM_SYSTEM_PAGES; ++page)
    table[page] = page * kPage | kPresentBit | kWriteBit | kUsedBits | kNoExecuteBit;
  table[index_of(KVM_GATES, 0)] = KVM_HOLE | kPresentBit | kUserBit | kUsedBits;
  words(KVM_SYSTEM_DIRECTORY)[index_of(KVM_SYSTEM, 1)] = KVM_SYSTEM_TABLE | kTableBits;
  return true;
}

GuestTables::Frame GuestTables::frame(uint32_t slot, bool has_error_code) const {
  uint64_t seen[6];  // error code, rip, cs, flags, rsp, ss
  std::memcpy(seen, memory_ + KVM_SEGMENTS + (slot + 1) * KVM_SEGMENT_BYTES - sizeof seen, sizeof seen);
  return {.error_code = has_error_code ? seen[0] : 0,
          .rip = seen[1],
          .code_segment = seen[2],
          .flags = seen[3],
          .rsp = seen[4]};
}

// ---- what is mapped ----

void GuestTables::cut(uint64_t address) {
  auto after = areas_.upper_bound(address);
  if (after == areas_.begin()) return;
  const auto area = std::prev(after);
  if (area->first == address || area->second.end <= address) return;
  areas_.emplace_hint(after, address, area->second);
  area->second.end = address;
}

GuestTables::Areas::const_iterator GuestTables::area_at(uint64_t address) const {
  auto after = areas_.upper_bound(address);
  if (after == areas_.begin()) return areas_.end();
  --after;
  return address < after->second.end ? after : areas_.end();
}

// The host's mappings enforce reads and writes; only these tables enforce execution.
void GuestTables::unmap(uint64_t address, uint64_t length) {
  if (length == 0) return;
  cut(address);
  cut(address + length);
  const auto from = areas_.lower_bound(address), to = areas_.lower_bound(address + length);
  is_stale_ |=
      std::any_of(from, to, [](const auto& area) { return (area.second.protection & PROT_EXEC) != 0; });
  areas_.erase(from, to);
}

void GuestTables::map(uint64_t address, uint64_t length, int protection) {
  if (length == 0) return;
  cut(address);
  cut(address + length);
  const auto from = areas_.lower_bound(address), to = areas_.lower_bound(address + length);
  if ((protection & PROT_EXEC) == 0)
    is_stale_ |=
        std::any_of(from, to, [](const auto& area) { return (area.second.protection & PROT_EXEC) != 0; });
  auto next = areas_.erase(from, to);
  uint64_t begin = address, end = address + length;
  if (next != areas_.end() && next->first == end && next->second.protection == protection) {
    end = next->second.end;
    next = areas_.erase(next);
  }
  if (next != areas_.begin()) {
    const auto before = std::prev(next);
    if (before->second.end == begin && before->second.protection == protection) {
      before->second.end = end;
      return;
    }
  }
  areas_.emplace_hint(next, begin, Area{end, protection});
}

void GuestTables::move(uint64_t from, uint64_t length, uint64_t to, uint64_t new_length) {
  const auto area = area_at(from);
  const int protection = area == areas_.end() ? PROT_NONE : area->second.protection;
  if (from != to) unmap(from, length);
  else if (new_length < length) return unmap(from + new_length, length - new_length);
  map(to, new_length, protection);
}

// ---- the tables ----

std::vector<GuestTables::Slot> GuestTables::slots() const {
  std::vector<Slot> all;
  for (const auto& [physical, slot] : slots_) all.push_back(slot);
  return all;
}

uint64_t GuestTables::new_page() {
  if (next_ + kPage > KVM_MACHINE_BYTES) return 0;
  return std::exchange(next_, next_ + kPage);
}

uint64_t GuestTables::descend(uint64_t& entry) {
  if ((entry & kPresentBit) != 0) return entry & kAddressBits;
  const uint64_t page = new_page();
  if (page != 0) entry = page | kTableBits;
  return page;
}

bool GuestTables::make_root() {
  const uint64_t root = new_page();
  const uint64_t top = root == 0 ? 0 : descend(words(root)[index_of(KVM_SYSTEM, 3)]);
  if (top == 0) return false;
  words(top)[index_of(KVM_SYSTEM, 2)] = KVM_SYSTEM_DIRECTORY | kTableBits;
  root_ = root;
  is_stale_ = false;
  return true;
}

uint64_t GuestTables::root() { return is_stale_ && !make_root() ? 0 : root_; }

void GuestTables::renew() {
  madvise(memory_ + KVM_TABLES, KVM_MACHINE_BYTES - KVM_TABLES, MADV_REMOVE);
  next_ = KVM_TABLES;
  is_stale_ = true;
}

GuestTables::Answer GuestTables::judge(uint64_t address, uint64_t error_code) const {
  const auto area = area_at(address);
  if (area == areas_.end()) return Answer::kNoMapping;
  const int protection = area->second.protection;
  const bool is_allowed = (error_code & kWasFetch) != 0   ? (protection & PROT_EXEC) != 0
                          : (error_code & kWasWrite) != 0 ? (protection & PROT_WRITE) != 0
                                                          : protection != PROT_NONE;
  return is_allowed ? Answer::kPresent : Answer::kForbidden;
}

std::optional<GuestTables::Slot> GuestTables::needs_slot(uint64_t address) {
  const uint64_t number = address / kWindow;
  const auto found = windows_.find(number);
  if (found == windows_.end() && windows_.size() == kMostWindows) return std::nullopt;
  const uint64_t window =
      windows_.try_emplace(number, KVM_FIRST_WINDOW + windows_.size() * kWindow).first->second;
  const uint64_t physical = window + address % kWindow / kSlotBytes * kSlotBytes;
  const Slot slot = {.number = static_cast<uint32_t>(1 + (physical - KVM_FIRST_WINDOW) / kSlotBytes),
                     .physical = physical,
                     .length = kSlotBytes,
                     .address = address / kSlotBytes * kSlotBytes};
  if (!slots_.try_emplace(physical, slot).second) return std::nullopt;
  return slot;
}

// All large pages of the window that lie within one area and existing slots.
GuestTables::Answer GuestTables::fill_large(uint64_t* directory, uint64_t address, uint64_t window,
                                            Areas::const_iterator area) {
  const uint64_t first = address / kSlotBytes * kSlotBytes, base = address / kWindow * kWindow;
  for (uint64_t at = first; at < first + kSlotBytes; at += kLargePage) {
    if (at < area->first || at + kLargePage > area->second.end) continue;
    uint64_t& entry = directory[index_of(at, 1)];
    if ((entry & kPresentBit) == 0)
      entry = (window + (at - base)) | page_bits(area->second.protection) | kLargeBit;
  }
  return Answer::kPresent;
}

void GuestTables::fill_small(uint64_t* table, uint64_t from, uint64_t to, uint64_t window) {
  auto area = areas_.upper_bound(from);
  if (area != areas_.begin()) --area;
  for (; area != areas_.end() && area->first < to; ++area)
    for (uint64_t at = std::max(from, area->first); at < std::min(to, area->second.end); at += kPage) {
      uint64_t& entry = table[index_of(at, 0)];
      const uint64_t bits = page_bits(area->second.protection);
      if (bits != 0) entry = widened(entry, (window + at % kWindow) | bits);
    }
}

GuestTables::Answer GuestTables::fill(uint64_t address, bool is_alone) {
  const auto window = windows_.find(address / kWindow);
  const auto area = area_at(address);
  if (window == windows_.end()) return Answer::kNoRoom;
  if (area == areas_.end()) return Answer::kNoMapping;
  if (root() == 0) return Answer::kFull;
  const uint64_t third = descend(words(root_)[index_of(address, 3)]);
  const uint64_t second = third == 0 ? 0 : descend(words(third)[index_of(address, 2)]);
  if (second == 0) return Answer::kFull;
  uint64_t& entry = words(second)[index_of(address, 1)];
  const uint64_t from = address / kLargePage * kLargePage, to = from + kLargePage;
  const bool is_large = !is_alone && area->first <= from && to <= area->second.end;
  if ((entry & kLargeBit) != 0 && is_large) {
    entry = widened(entry, page_bits(area->second.protection));
    return Answer::kPresent;
  }
  if ((entry & kLargeBit) != 0) {
    // A large page is split into many.
    is_stale_ = true;
    return fill(address, is_alone);
  }
  if (is_large && (entry & kPresentBit) == 0) return fill_large(words(second), address, window->second, area);
  const uint64_t first = descend(entry);
  if (first == 0) return Answer::kFull;
  const uint64_t page = address / kPage * kPage;
  if (is_alone) fill_small(words(first), page, page + kPage, window->second);
  else fill_small(words(first), from, to, window->second);
  return Answer::kPresent;
}

}  // namespace membrane::linux
