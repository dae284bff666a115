#include "linux/kernel/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

namespace membrane::linux {

namespace {

constexpr uint64_t kStackGap =
    256u << 20;  // below the highest address, left for the stack to be seen as growing

bool is_whole(uint64_t address) { return address % kPage == 0; }

// Some of its pages may be left from what was mapped before.
void hold(Area& area, const std::shared_ptr<const void>& held) {
  using Both = std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>;
  if (area.held == nullptr) area.held = held;
  else if (held != nullptr && held != area.held) area.held = std::make_shared<const Both>(area.held, held);
}

}  // namespace

Memory::Memory(std::shared_ptr<Space> space, uint64_t lowest, uint64_t highest)
    : space_(std::move(space)), lowest_(lowest), highest_(highest), search_from_(highest - kStackGap) {}

bool Memory::fits(uint64_t address, uint64_t length) const {
  return address >= lowest_ && length <= highest_ - lowest_ && address <= highest_ - length;
}

bool Memory::is_free(uint64_t address, uint64_t length) const {
  const auto next = areas_.upper_bound(address);
  if (next != areas_.end() && next->first < address + length) return false;
  return next == areas_.begin() || std::prev(next)->second.end <= address;
}

// The highest free place below the stack.
uint64_t Memory::find_free(uint64_t length) {
  if (length > highest_ - lowest_) return 0;
  if (length <= largest_gap_above_) {
    search_from_ = highest_ - kStackGap;
    largest_gap_above_ = 0;
  }
  uint64_t& top = search_from_;
  for (auto next = areas_.lower_bound(top); next != areas_.begin(); --next) {
    const auto& [start, area] = *std::prev(next);
    if (area.end <= top && top - area.end >= length) return top - length;
    if (area.end < top) largest_gap_above_ = std::max(largest_gap_above_, top - area.end);
    top = std::min(top, start);
  }
  return top >= lowest_ + length ? top - length : 0;
}

// At this address is a gap now: find_free() searches it, too.
void Memory::note_free(uint64_t address) {
  const auto next = areas_.lower_bound(address);
  const uint64_t most = highest_ - kStackGap;
  search_from_ = std::max(search_from_, next == areas_.end() ? most : std::min(next->first, most));
}

void Memory::split_at(uint64_t address) {
  split_kept_at(address);
  auto at = areas_.upper_bound(address);
  if (at == areas_.begin()) return;
  --at;
  auto& [start, area] = *at;
  if (start == address || area.end <= address) return;
  Area rest = area;
  rest.offset += address - start;
  area.end = address;
  areas_.emplace(address, std::move(rest));
}

void Memory::forget(uint64_t address, uint64_t length) {
  split_at(address);
  split_at(address + length);
  const auto from = areas_.lower_bound(address), to = areas_.lower_bound(address + length);
  for (auto each = from; each != to; ++each) mapped_bytes_ -= each->second.end - each->first;
  const bool has_gap = from != to;
  areas_.erase(from, to);
  if (has_gap) note_free(address);
  forget_kept_pages(address, length);
}

// -- pages of a file that the sandbox was kept in

bool Memory::has_kept_pages(uint64_t address, uint64_t length) const {
  const auto next = kept_pages_.lower_bound(address);
  if (next != kept_pages_.end() && next->first < address + length) return true;
  return next != kept_pages_.begin() && std::prev(next)->second.end > address;
}

void Memory::split_kept_at(uint64_t address) {
  const auto after = kept_pages_.upper_bound(address);
  if (after == kept_pages_.begin()) return;
  auto& [start, pages] = *std::prev(after);
  if (start == address || pages.end <= address) return;
  KeptPages rest = pages;
  rest.offset += address - start;
  pages.end = address;
  kept_pages_.emplace(address, rest);
}

void Memory::forget_kept_pages(uint64_t address, uint64_t length) {
  if (kept_pages_.empty()) return;
  split_kept_at(address);
  split_kept_at(address + length);
  kept_pages_.erase(kept_pages_.lower_bound(address), kept_pages_.lower_bound(address + length));
}

// Maps as map() does: what backs the area begins at the file's `offset`.
Done Memory::map_base(uint64_t address, uint64_t length, Area& area, uint64_t offset) {
  Backing backing;
  if (area.file != nullptr) {
    auto of_node = area.file->node() != nullptr ? area.file->node()->mapping(offset, length, area.is_shared)
                                                : Try<Backing>(err(ENODEV));
    if (!of_node) of_node = area.file->mapping(offset, length, area.is_shared, area.protection);
    if (!of_node) return err(of_node.error());
    backing = *of_node;
    backing.may_write = (area.most_protection & PROT_WRITE) != 0;
    hold(area, backing.held);
  }
  const uint64_t backed = backing.fd < 0 ? length : page_up(std::min(length, backing.length));
  if (backed > 0) space_->map(address, backed, area.protection, backing);
  if (backed < length) space_->map(address + backed, length - backed, PROT_NONE, {});
  return {};
}

// A range that consists of several host mappings is moved one by one; its extension is mapped separately. The
// area at the new address already exists; the one at the old address is gone.
Done Memory::move_pieces(uint64_t from, uint64_t length, uint64_t to, uint64_t new_length) {
  Area& area = areas_.at(to);
  const uint64_t moved = std::min(length, new_length);
  if (from != to) {
    std::map<uint64_t, KeptPages> pieces;
    for (auto at = kept_pages_.lower_bound(from); at != kept_pages_.end() && at->first < from + moved; ++at)
      pieces.insert(*at);
    forget_kept_pages(from, length);
    uint64_t at = from;
    const auto move_to = [&](uint64_t end) {
      if (end > at) space_->move(at, end - at, to + (at - from), end - at);
      at = std::max(at, end);
    };
    for (const auto& [start, pages] : pieces) {
      move_to(start);
      move_to(std::min(pages.end, from + moved));
      kept_pages_[to + (start - from)] = {to + (std::min(pages.end, from + moved) - from), pages.file,
                                          pages.offset};
    }
    move_to(from + moved);
    if (length > moved) space_->unmap(from + moved, length - moved);
  }
  if (new_length <= length) return {};
  kept_pages_[to + length] = {.end = to + new_length};
  return map_base(to + length, new_length - length, area, area.offset + length);
}

Try<uint64_t> Memory::map(const Wish& wish) {
  const uint64_t length = wish.length;
  if (length == 0 || !is_whole(length)) return err(EINVAL);
  if (areas_.size() >= kMostAreas) return err(ENOMEM);
  uint64_t address = wish.address;
  if (wish.is_fixed) {
    if (!is_whole(address)) return err(EINVAL);
    if (!fits(address, length)) return err(address < lowest_ ? EPERM : ENOMEM);
    if (!wish.replaces && !is_free(address, length)) return err(EEXIST);
  } else {
    address = page_down(address);
    if (address == 0 || !fits(address, length) || !is_free(address, length)) address = find_free(length);
    if (address == 0) return err(ENOMEM);
  }
  forget(address, length);
  Area area = {.end = address + length,
               .protection = wish.protection,
               .is_shared = wish.is_shared,
               .file = wish.file,
               .offset = wish.offset,
               .most_protection = wish.most_protection,
               .name = wish.name,
               .held = wish.backing.held};
  mapped_bytes_ += length;
  const uint64_t backed = wish.backing.fd < 0 ? length : page_up(std::min(length, wish.backing.length));
  if (backed > 0) space_->map(address, backed, wish.protection, wish.backing);
  if (backed < length) space_->map(address + backed, length - backed, PROT_NONE, {});
  // Adjacent areas are not merged, so that each lies within one host mapping, on which remap() relies.
  areas_.emplace(address, std::move(area));
  return address;
}

Done Memory::unmap(uint64_t address, uint64_t length) {
  length = page_up(length);
  if (!is_whole(address) || length == 0 || !fits(address, length)) return err(EINVAL);
  if (areas_.size() + 1 >= kMostAreas) return err(ENOMEM);
  forget(address, length);
  space_->unmap(address, length);
  return {};
}

bool Memory::is_mapped(uint64_t address, uint64_t length) const {
  if (length == 0) return true;
  if (!fits(address, length)) return false;
  const uint64_t end = address + length;
  for (auto next = areas_.upper_bound(address); address < end; ++next) {
    if (next == areas_.begin()) return false;
    const auto& [start, area] = *std::prev(next);
    if (start > address || area.end <= address) return false;
    address = area.end;
    if (next == areas_.end() && address < end) return false;
  }
  return true;
}

Done Memory::protect(uint64_t address, uint64_t length, int protection) {
  if (!is_whole(address)) return err(EINVAL);
  length = page_up(length);
  if (length == 0) return {};
  if (!fits(address, length) || !is_mapped(address, length)) return err(ENOMEM);
  if (areas_.size() + 2 >= kMostAreas) return err(ENOMEM);
  split_at(address);
  split_at(address + length);
  const auto from = areas_.lower_bound(address), to = areas_.lower_bound(address + length);
  for (auto each = from; each != to; ++each)
    if ((protection & ~each->second.most_protection) != 0) return err(EACCES);
  for (auto each = from; each != to; ++each) each->second.protection = protection;
  space_->protect(address, length, protection);
  return {};
}

Try<uint64_t> Memory::remap(uint64_t from, uint64_t length, uint64_t new_length, int flags, uint64_t to) {
  length = page_up(length);
  new_length = page_up(new_length);
  if (!is_whole(from) || new_length == 0 || (flags & ~(MREMAP_MAYMOVE | MREMAP_FIXED)) != 0)
    return err(EINVAL);
  if (length == 0 || !fits(from, length) || !is_mapped(from, length)) return err(EFAULT);
  if (areas_.size() + 2 >= kMostAreas) return err(ENOMEM);
  const auto at = std::prev(areas_.upper_bound(from));
  if (at->second.end < from + length) return err(EFAULT);  // one area only, as in Linux
  const bool is_fixed = (flags & MREMAP_FIXED) != 0;
  if (!is_fixed && new_length <= length) {
    if (new_length < length) MEMBRANE_TRY(unmap(from + new_length, length - new_length));
    return from;
  }
  uint64_t target = to;
  const bool grows_here = !is_fixed && fits(from, new_length) && is_free(from + length, new_length - length);
  if (grows_here) target = from;
  else if ((flags & MREMAP_MAYMOVE) == 0) return err(is_fixed ? EINVAL : ENOMEM);
  else if (!is_fixed) target = find_free(new_length);
  if (target == 0) return err(ENOMEM);
  if (is_fixed && (!is_whole(to) || !fits(to, new_length) || (to < from + length && from < to + new_length)))
    return err(EINVAL);
  split_at(from);
  split_at(from + length);
  Area area = areas_.at(from);
  split_kept_at(from);
  split_kept_at(from + length);
  const bool is_one_piece = !has_kept_pages(from, length);
  if (target != from) forget(target, new_length);
  mapped_bytes_ -= length;
  areas_.erase(from);
  note_free(from);
  area.end = target + new_length;
  area.name = {};
  areas_.emplace(target, std::move(area));
  mapped_bytes_ += new_length;
  if (is_one_piece) space_->move(from, length, target, new_length);
  else MEMBRANE_TRY(move_pieces(from, length, target, new_length));
  return target;
}

Done Memory::discard(uint64_t address, uint64_t length) {
  if (!is_whole(address)) return err(EINVAL);
  length = page_up(length);
  if (length == 0) return {};
  if (!fits(address, length) || !is_mapped(address, length)) return err(ENOMEM);
  if (has_kept_pages(address, length)) {
    split_kept_at(address);
    split_kept_at(address + length);
    // They would have their kept content: what backs the area replaces them.
    for (auto at = kept_pages_.lower_bound(address); at != kept_pages_.end() && at->first < address + length;
         ++at) {
      if (std::exchange(at->second.file, -1) < 0) continue;
      auto& [start, area] = *std::prev(areas_.upper_bound(at->first));
      MEMBRANE_TRY(map_base(at->first, at->second.end - at->first, area, area.offset + (at->first - start)));
    }
  }
  space_->discard(address, length);
  return {};
}

uint64_t Memory::set_break(uint64_t wanted, uint64_t most_bytes) {
  if (wanted < heap_ || wanted - heap_ > most_bytes || wanted > highest_ - kStackGap) return break_;
  const uint64_t old_end = page_up(break_), new_end = page_up(wanted);
  if (new_end > old_end) {
    if (!is_free(old_end, new_end - old_end)) return break_;
    const auto before = areas_.lower_bound(old_end);
    if (old_end > page_up(heap_) && before != areas_.begin() && std::prev(before)->second.end == old_end &&
        std::prev(before)->second.name == "[heap]") {
      std::prev(before)->second.end = new_end;
      mapped_bytes_ += new_end - old_end;
      space_->map(old_end, new_end - old_end, PROT_READ | PROT_WRITE, {});
    } else if (!map({.address = old_end,
                     .length = new_end - old_end,
                     .protection = PROT_READ | PROT_WRITE,
                     .is_fixed = true,
                     .file = nullptr,
                     .backing = {},
                     .name = "[heap]"})) {
      return break_;
    }
  } else if (new_end < old_end && !unmap(new_end, old_end - new_end)) {
    return break_;
  }
  return break_ = wanted;
}

void Memory::clear() {
  areas_.clear();
  kept_pages_.clear();
  kept_file_ = nullptr;
  mapped_bytes_ = heap_ = break_ = 0;
  search_from_ = highest_ - kStackGap;
  largest_gap_above_ = 0;
  space_->clear();
}

std::shared_ptr<Memory> Memory::copy(std::shared_ptr<Space> space) const {
  auto made = std::make_shared<Memory>(*this);
  made->space_ = std::move(space);
  return made;
}

}  // namespace membrane::linux
