// Tables that map names (or other things with a hash) to indices. Made for the common case of
// a handful of entries, which are scanned; a hash table is built when there are more.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace membrane::wasm {

inline constexpr uint32_t kNoIndex = UINT32_MAX;

// Differs from process to process where addresses do, so that no text can be written whose names
// collide. No output depends on it.
inline uint32_t hash_seed() {
  static const char anchor = 0;
  return 2166136261u ^ static_cast<uint32_t>(reinterpret_cast<uintptr_t>(&anchor) >> 4);
}

// FNV-1a, with its weak high bits mixed into the low ones.
inline uint32_t hash_bytes(std::string_view bytes, uint32_t seed = hash_seed()) {
  uint32_t h = seed;
  for (const char c : bytes) h = (h ^ static_cast<uint8_t>(c)) * 16777619u;
  return h ^ (h >> 15);
}

// A multimap from hash to index; the caller compares what the indices stand for.
class HashIndex {
 public:
  // The first index under `hash` for which `equal(index)` holds, or kNoIndex.
  template <typename Equal>
  uint32_t find(uint32_t hash, Equal equal) const {
    if (slots_.empty()) {
      for (const Entry& e : entries_)
        if (e.hash == hash && equal(e.index)) return e.index;
      return kNoIndex;
    }
    const size_t mask = slots_.size() - 1;
    for (size_t i = hash & mask; slots_[i] != 0; i = (i + 1) & mask) {
      const Entry& e = entries_[slots_[i] - 1];
      if (e.hash == hash && equal(e.index)) return e.index;
    }
    return kNoIndex;
  }

  void insert(uint32_t hash, uint32_t index) {
    entries_.push_back({hash, index});
    if (entries_.size() <= kScanned) return;
    if (entries_.size() * 2 > slots_.size()) {
      rebuild();
    } else {
      place(entries_.size() - 1);
    }
  }

  void clear() {
    entries_.clear();
    slots_.clear();
  }

 private:
  struct Entry {
    uint32_t hash;
    uint32_t index;
  };
  static constexpr size_t kScanned = 8;

  void place(size_t entry) {
    const size_t mask = slots_.size() - 1;
    size_t i = entries_[entry].hash & mask;
    while (slots_[i] != 0) i = (i + 1) & mask;
    slots_[i] = static_cast<uint32_t>(entry + 1);
  }
  void rebuild() {
    size_t size = 32;
    while (size < entries_.size() * 4) size *= 2;
    slots_.assign(size, 0);
    for (size_t i = 0; i < entries_.size(); ++i) place(i);
  }

  std::vector<Entry> entries_;
  std::vector<uint32_t> slots_;  // 1 + position in entries_, 0 when free; a power of two long
};

// The identifiers of one index space. Names are views into the text and keep their "$".
class NameScope {
 public:
  struct Name {
    std::string_view text;
    uint32_t index;
  };

  // False, and nothing is added, when the name is there already.
  bool add(std::string_view name, uint32_t index) {
    const uint32_t hash = hash_bytes(name);
    if (find(name, hash) != kNoIndex) return false;
    by_hash_.insert(hash, static_cast<uint32_t>(names_.size()));
    names_.push_back({name, index});
    return true;
  }

  [[nodiscard]] uint32_t find(std::string_view name) const {
    if (names_.empty()) return kNoIndex;
    const uint32_t at = find(name, hash_bytes(name));
    return at == kNoIndex ? kNoIndex : names_[at].index;
  }

  void clear() {
    names_.clear();
    by_hash_.clear();
  }

  [[nodiscard]] const std::vector<Name>& names() const { return names_; }

 private:
  [[nodiscard]] uint32_t find(std::string_view name, uint32_t hash) const {
    return by_hash_.find(hash, [&](uint32_t at) { return names_[at].text == name; });
  }

  std::vector<Name> names_;
  HashIndex by_hash_;
};

// The labels of the blocks around an instruction, innermost last. A name may occur twice: the inner
// one hides the outer. Few labels are scanned; for many there is a hash table, in which a name that
// is pushed last is also removed first, so that removing leaves no gaps.
class LabelScope {
 public:
  void push(std::string_view name) {
    labels_.push_back({name, name.empty() ? 0 : hash_bytes(name), 0});
    if (labels_.size() == kScanned + 1) {
      slots_.resize(kSlots);
      for (size_t i = 0; i < labels_.size(); ++i) enter(i);
    } else if (labels_.size() > kScanned) {
      enter(labels_.size() - 1);
    }
  }

  void pop() {
    if (labels_.size() > kScanned) {
      leave(labels_.size() - 1);
      if (labels_.size() == kScanned + 1)
        for (size_t i = kScanned; i-- > 0;) leave(i);
    }
    labels_.pop_back();
  }

  // How many blocks lie inside the one with that name, or kNoIndex.
  [[nodiscard]] uint32_t depth_of(std::string_view name) const {
    const uint32_t hash = hash_bytes(name);
    size_t found = 0;  // 1 + position
    if (labels_.size() > kScanned) {
      found = slots_[slot_of(name, hash)];
    } else {
      for (found = labels_.size(); found > 0; --found)
        if (labels_[found - 1].hash == hash && labels_[found - 1].name == name) break;
    }
    return found == 0 ? kNoIndex : static_cast<uint32_t>(labels_.size() - found);
  }

  void clear() {
    labels_.clear();
    slots_.clear();
  }

  [[nodiscard]] std::vector<std::string_view> names() const {
    std::vector<std::string_view> out;
    for (const Label& label : labels_)
      if (!label.name.empty()) out.push_back(label.name);
    return out;
  }

 private:
  struct Label {
    std::string_view name;
    uint32_t hash;
    uint32_t hidden;  // 1 + position of the outer label of that name
  };
  static constexpr size_t kScanned = 32;
  static constexpr size_t kSlots = 32'768;  // a power of two, above twice kMaxTextNesting

  // Where `name` is, or the free slot where it would.
  [[nodiscard]] size_t slot_of(std::string_view name, uint32_t hash) const {
    size_t i = hash & (kSlots - 1);
    while (slots_[i] != 0 && labels_[slots_[i] - 1].name != name) i = (i + 1) & (kSlots - 1);
    return i;
  }
  void enter(size_t position) {
    Label& label = labels_[position];
    if (label.name.empty()) return;
    uint32_t& slot = slots_[slot_of(label.name, label.hash)];
    label.hidden = std::exchange(slot, static_cast<uint32_t>(position + 1));
  }
  void leave(size_t position) {
    const Label& label = labels_[position];
    if (!label.name.empty()) slots_[slot_of(label.name, label.hash)] = label.hidden;
  }

  std::vector<Label> labels_;
  std::vector<uint32_t> slots_;  // 1 + position of the innermost label of a name, 0 when free
};

}  // namespace membrane::wasm
