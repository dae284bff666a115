// map: numbers keyed by texts, for counting and adding up.
//
// A map is in the program's linear memory, so it is frozen, copied and paid for like everything there:
//
//   header  magic, count, capacity, entries, slots      (five u32)
//   entries capacity × { key: address of a string, hash: u32, value: f64 }, in the order in which they were added
//   slots   twice the capacity × u32: 0, or the number of an entry and 1
//
// When the entries are full, both arrays are reallocated with twice the capacity. The program may overwrite any of
// it: each address and number is checked before it is used, and each step is paid for, so a broken map costs its
// program a trap, and the host nothing.
#include <algorithm>
#include <bit>
#include <cmath>
#include <compare>
#include <cstring>
#include <span>
#include <vector>

#include "host/call.h"
#include "host/capabilities/all.h"
#include "host/numbers.h"

namespace membrane::host {
namespace {

constexpr uint32_t kMagic = 0x7061'4D6D;  // "mMap"
constexpr uint64_t kHeaderBytes = 20;
constexpr uint64_t kEntryBytes = 16;
constexpr uint64_t kSlotBytes = 4;
constexpr uint64_t kSlotsPerEntry = 2;
constexpr uint32_t kFirstCapacity = 16;
constexpr uint32_t kMaxCapacity = 1u << 24;

// Fuel for checking a slot and its key; for moving an entry when a map grows; for a listed entry.
constexpr uint64_t kProbeFuel = 4;
constexpr uint64_t kMoveFuel = 4;
constexpr uint64_t kListFuel = 8;

// FNV-1a.
uint32_t hash_of(std::string_view key) {
  uint32_t hash = 2'166'136'261U;
  for (const char c : key) hash = (hash ^ static_cast<uint8_t>(c)) * 16'777'619U;
  return hash;
}

struct Entry {
  uint32_t key = 0;
  uint32_t hash = 0;
  double value = 0;
};

// A map during a call. Addresses that open() has checked are valid until memory is allocated.
class Map {
 public:
  static HostResult<Map> open(Call& call) {
    Map map(call, static_cast<uint32_t>(call.i32(0)));
    MEMBRANE_TRY(map.read_header());
    return map;
  }
  static HostResult<uint32_t> make(Call& call) {
    MEMBRANE_ASSIGN(const uint32_t at, call.guest.allocate(kHeaderBytes));
    Map map(call, at);
    MEMBRANE_TRY(map.move_to(kFirstCapacity, std::vector<uint32_t>(kFirstCapacity * kSlotsPerEntry)));
    return at;
  }

  [[nodiscard]] uint32_t count() const { return count_; }
  [[nodiscard]] Entry entry(uint32_t number) const {
    const uint64_t at = entries_ + number * kEntryBytes;
    return {read<uint32_t>(at), read<uint32_t>(at + 4), read<double>(at + 8)};
  }
  void set_value(uint32_t number, double value) { write(entries_ + number * kEntryBytes + 8, value); }
  [[nodiscard]] HostResult<std::string_view> key_of(const Entry& entry) const {
    return call_.guest.read_string(entry.key);
  }

  // The index of the key's entry; count() when there is none.
  HostResult<uint32_t> find(std::string_view key) {
    const uint32_t hash = hash_of(key);
    for (uint64_t looks = 0; looks <= slot_count(); ++looks) {
      MEMBRANE_TRY(pay(kProbeFuel));
      free_slot_ = (hash + looks) % slot_count();
      const uint32_t number = read<uint32_t>(slots_ + free_slot_ * kSlotBytes);
      if (number == 0) return count_;
      if (number > count_) return broken();
      const Entry found = entry(number - 1);
      if (found.hash != hash) continue;
      MEMBRANE_ASSIGN(const std::string_view its, key_of(found));
      MEMBRANE_TRY(pay(std::min(its.size(), key.size()) / 8));
      if (its == key) return number - 1;
    }
    return broken();
  }

  // Adds a key that find() did not find. The key is copied, since the program may overwrite it. Everything that may
  // fail is paid for before anything is written, since the call is then repeated.
  HostResult<void> add(std::string_view key, double value) {
    const uint32_t hash = hash_of(key);
    std::vector<uint32_t> grown;
    if (count_ == capacity_) {
      MEMBRANE_ASSIGN(grown, slots_of_twice());
      MEMBRANE_ASSIGN(free_slot_, free_slot_in(grown, hash));
    }
    MEMBRANE_ASSIGN(const uint32_t copy, call_.guest.write_string(key));
    if (!grown.empty()) MEMBRANE_TRY(move_to(capacity_ * 2, grown));
    const uint64_t at = entries_ + count_ * kEntryBytes;
    write(at, copy);
    write(at + 4, hash);
    write(at + 8, value);
    ++count_;
    write(slots_ + free_slot_ * kSlotBytes, count_);
    write(map_ + 4, count_);
    return {};
  }

  HostResult<void> pay(uint64_t fuel) {
    call_.work.add(fuel);
    if (call_.work.is_too_much()) return refuse(Errno::kBudget, "there is no fuel left for the map");
    return {};
  }

 private:
  Map(Call& call, uint32_t at) : call_(call), map_(at) {}

  static std::unexpected<HostError> broken() {
    return refuse(Errno::kInvalid, "the address is that of no map, or its memory was written over");
  }

  [[nodiscard]] uint64_t slot_count() const { return capacity_ * kSlotsPerEntry; }
  [[nodiscard]] bool holds(uint64_t at, uint64_t bytes) const {
    return at + bytes <= call_.guest.memory().size();
  }
  template <typename T>
  [[nodiscard]] T read(uint64_t at) const {
    T value{};
    std::memcpy(&value, call_.guest.memory().data() + at, sizeof(T));
    return value;
  }
  template <typename T>
  void write(uint64_t at, T value) {
    std::memcpy(call_.guest.memory().data() + at, &value, sizeof(T));
  }

  HostResult<void> read_header() {
    if (!holds(map_, kHeaderBytes) || read<uint32_t>(map_) != kMagic) return broken();
    count_ = read<uint32_t>(map_ + 4);
    capacity_ = read<uint32_t>(map_ + 8);
    entries_ = read<uint32_t>(map_ + 12);
    slots_ = read<uint32_t>(map_ + 16);
    const bool is_whole = capacity_ >= kFirstCapacity && capacity_ <= kMaxCapacity && count_ <= capacity_ &&
                          holds(entries_, capacity_ * kEntryBytes) &&
                          holds(slots_, slot_count() * kSlotBytes);
    if (!is_whole) return broken();
    return {};
  }

  // Paid slots for a map of twice the capacity.
  HostResult<std::vector<uint32_t>> slots_of_twice() {
    if (capacity_ >= kMaxCapacity)
      return refuse(Errno::kNoMemory, "a map has at most " + std::to_string(kMaxCapacity) + " keys");
    MEMBRANE_TRY(pay(kMoveFuel * count_));
    MEMBRANE_TRY(call_.check_size(2 * slot_count() * kSlotBytes));
    std::vector<uint32_t> slots(2 * slot_count());
    for (uint32_t number = 0; number < count_; ++number) {
      MEMBRANE_ASSIGN(const uint64_t slot, free_slot_in(slots, entry(number).hash));
      slots[slot] = number + 1;
    }
    return slots;
  }

  // There are more slots than entries, so one is free.
  HostResult<uint64_t> free_slot_in(const std::vector<uint32_t>& slots, uint32_t hash) {
    uint64_t slot = hash % slots.size();
    for (; slots[slot] != 0; slot = (slot + 1) % slots.size()) MEMBRANE_TRY(pay(1));
    return slot;
  }

  // Grows to this capacity, with these slots.
  HostResult<void> move_to(uint32_t capacity, const std::vector<uint32_t>& slots) {
    MEMBRANE_ASSIGN(const uint32_t at,
                    call_.guest.allocate(capacity * kEntryBytes + slots.size() * kSlotBytes));
    uint8_t* const memory = call_.guest.memory().data();
    std::memmove(memory + at, memory + entries_, count_ * kEntryBytes);
    capacity_ = capacity;
    entries_ = at;
    slots_ = at + capacity * kEntryBytes;
    std::memcpy(memory + slots_, slots.data(), slots.size() * kSlotBytes);
    write(map_, kMagic);
    write(map_ + 4, count_);
    write(map_ + 8, capacity_);
    write(map_ + 12, static_cast<uint32_t>(entries_));
    write(map_ + 16, static_cast<uint32_t>(slots_));
    return {};
  }

  Call& call_;
  uint64_t map_ = 0;
  uint32_t count_ = 0;
  uint32_t capacity_ = 0;
  uint64_t entries_ = 0;
  uint64_t slots_ = 0;
  uint64_t free_slot_ = 0;
};

HostResult<Value> make(Call& call) {
  MEMBRANE_ASSIGN(const uint32_t map, Map::make(call));
  return static_cast<int32_t>(map);
}

// Sets the key's value, or adds to it.
HostResult<Value> put(Call& call, double value, bool adds) {
  MEMBRANE_ASSIGN(Map map, Map::open(call));
  MEMBRANE_ASSIGN(const uint32_t number, map.find(call.text(1)));
  if (number == map.count()) return nothing(map.add(call.text(1), value));
  map.set_value(number, adds ? map.entry(number).value + value : value);
  return Value();
}
HostResult<Value> add(Call& call) { return put(call, call.i32(2), true); }
HostResult<Value> add_f64(Call& call) { return put(call, call.f64(2), true); }
HostResult<Value> set(Call& call) { return put(call, call.i32(2), false); }
HostResult<Value> set_f64(Call& call) { return put(call, call.f64(2), false); }

HostResult<Value> get_f64(Call& call) {
  MEMBRANE_ASSIGN(Map map, Map::open(call));
  MEMBRANE_ASSIGN(const uint32_t number, map.find(call.text(1)));
  return number == map.count() ? 0.0 : map.entry(number).value;
}

HostResult<Value> get(Call& call) {
  MEMBRANE_ASSIGN(const Value value, get_f64(call));
  const double number = std::get<double>(value);
  if (number != std::trunc(number) || number < INT32_MIN || number > INT32_MAX)
    return refuse(Errno::kInvalid, decimal_of(number) + " is not an i32; map.get_f64 returns it");
  return static_cast<int32_t>(number);
}

HostResult<Value> has(Call& call) {
  MEMBRANE_ASSIGN(Map map, Map::open(call));
  MEMBRANE_ASSIGN(const uint32_t number, map.find(call.text(1)));
  return truth(number != map.count());
}

HostResult<Value> count(Call& call) {
  MEMBRANE_ASSIGN(const Map map, Map::open(call));
  return static_cast<int32_t>(map.count());
}

struct Keyed {
  std::string_view key;
  double value = 0;
};

// The entries in order, if there is room for them and for a list of their keys.
HostResult<std::vector<Keyed>> entries_of(Call& call, Map& map) {
  MEMBRANE_TRY(map.pay(kListFuel * map.count()));
  MEMBRANE_TRY(call.check_size(map.count() * sizeof(Keyed)));
  std::vector<Keyed> entries;
  entries.reserve(map.count());
  uint64_t size = 0;
  for (uint32_t number = 0; number < map.count(); ++number) {
    const Entry entry = map.entry(number);
    MEMBRANE_ASSIGN(const std::string_view key, map.key_of(entry));
    size += 4 + key.size();
    entries.push_back({key, entry.value});
  }
  MEMBRANE_TRY(call.check_size(size + map.count() * sizeof(Keyed)));
  return entries;
}

// In the format of list.*.
std::string list_of(std::span<const Keyed> entries) {
  std::string list;
  for (const Keyed& entry : entries) {
    for (unsigned shift = 0; shift < 32; shift += 8)
      list.push_back(static_cast<char>(entry.key.size() >> shift));
    list += entry.key;
  }
  return list;
}

HostResult<Value> keys(Call& call) {
  MEMBRANE_ASSIGN(Map map, Map::open(call));
  MEMBRANE_ASSIGN(const std::vector<Keyed> entries, entries_of(call, map));
  return list_of(entries);
}

HostResult<Value> top(Call& call) {
  MEMBRANE_ASSIGN(Map map, Map::open(call));
  MEMBRANE_ASSIGN(std::vector<Keyed> entries, entries_of(call, map));
  MEMBRANE_TRY(map.pay(entries.size() * static_cast<uint64_t>(std::bit_width(entries.size()))));
  uint64_t size = 0;
  for (const Keyed& entry : entries) size += entry.key.size();
  MEMBRANE_TRY(map.pay(size));  // similar keys are compared to their ends
  std::ranges::sort(entries, [](const Keyed& a, const Keyed& b) {
    const auto order = std::strong_order(b.value, a.value);  // also for NaN
    return order == 0 ? a.key < b.key : order < 0;
  });
  const auto wanted = static_cast<size_t>(std::max(call.i32(1), 0));
  return list_of(std::span(entries).first(std::min(wanted, entries.size())));
}

constexpr Param kMap{"map", Type::kI32};
constexpr Param kKey{"key", Type::kBytes};
constexpr Param kNumber{"value", Type::kI32};
constexpr Param kReal{"value", Type::kF64};
constexpr Cost kCost{.base = 40, .per_byte = 1, .works = true};

// The body of an example: (set $m (call $map.new)) … `body`.
#define MAP_EXAMPLE(body) "(set $m (call $map.new)) " body

constexpr FunctionSpec kFunctions[] = {
    {.module = "map",
     .name = "new",
     .result = Type::kI32,
     .result_name = "map",
     .cost = {.base = 200, .per_byte = 0},
     .summary = "An empty map from texts to numbers. Its address stands for it.",
     .example = MAP_EXAMPLE(R"((call $io.print_i32 (call $map.count $m)))"),
     .prints = "0",
     .handler = make},
    {.module = "map",
     .name = "add",
     .params = {kMap, kKey, kNumber},
     .cost = kCost,
     .summary = "Adds to the number of the key, which is 0 when it is new.",
     .details = "Numbers are kept as f64, so whole ones are exact up to 2^53.",
     .example = MAP_EXAMPLE(
         R"((call $map.add $m "a" 2) (call $map.add $m "a" 3) (call $io.print_i32 (call $map.get $m "a")))"),
     .prints = "5",
     .handler = add},
    {.module = "map",
     .name = "add_f64",
     .params = {kMap, kKey, kReal},
     .cost = kCost,
     .summary = "As map.add, for an f64.",
     .example =
         MAP_EXAMPLE(R"((call $map.add_f64 $m "a" 2.5) (call $io.print_f64 (call $map.get_f64 $m "a")))"),
     .prints = "2.5",
     .handler = add_f64},
    {.module = "map",
     .name = "set",
     .params = {kMap, kKey, kNumber},
     .cost = kCost,
     .summary = "Sets the number of the key, over what it was; it may be the address of a string.",
     .example = MAP_EXAMPLE(R"((call $map.set $m "a" 7) (call $io.print_i32 (call $map.get $m "a")))"),
     .prints = "7",
     .handler = set},
    {.module = "map",
     .name = "set_f64",
     .params = {kMap, kKey, kReal},
     .cost = kCost,
     .summary = "As map.set, for an f64.",
     .example =
         MAP_EXAMPLE(R"((call $map.set_f64 $m "a" 0.5) (call $io.print_f64 (call $map.get_f64 $m "a")))"),
     .prints = "0.5",
     .handler = set_f64},
    {.module = "map",
     .name = "get",
     .params = {kMap, kKey},
     .result = Type::kI32,
     .result_name = "value",
     .cost = kCost,
     .summary = "The number of the key, 0 when there is none; a trap when it is no i32.",
     .example = MAP_EXAMPLE(R"((call $io.print_i32 (call $map.get $m "nothing")))"),
     .prints = "0",
     .handler = get},
    {.module = "map",
     .name = "get_f64",
     .params = {kMap, kKey},
     .result = Type::kF64,
     .result_name = "value",
     .cost = kCost,
     .summary = "As map.get, for an f64.",
     .example = MAP_EXAMPLE(R"((call $map.set $m "a" 7) (call $io.print_f64 (call $map.get_f64 $m "a")))"),
     .prints = "7",
     .handler = get_f64},
    {.module = "map",
     .name = "has",
     .params = {kMap, kKey},
     .result = Type::kI32,
     .result_name = "found",
     .cost = kCost,
     .summary = "1 when the key is there, else 0.",
     .example = MAP_EXAMPLE(R"((call $map.set $m "a" 0) (call $io.print_i32 (call $map.has $m "a")))"),
     .prints = "1",
     .handler = has},
    {.module = "map",
     .name = "count",
     .params = {kMap},
     .result = Type::kI32,
     .result_name = "count",
     .cost = kCost,
     .summary = "How many keys there are.",
     .example = MAP_EXAMPLE(R"((call $map.set $m "a" 7) (call $io.print_i32 (call $map.count $m)))"),
     .prints = "1",
     .handler = count},
    {.module = "map",
     .name = "keys",
     .params = {kMap},
     .result = Type::kBytes,
     .result_name = "list",
     .cost = {.base = 40, .per_byte = 2, .works = true},
     .summary = "The keys in the order in which they were added, for (each …) and list.*.",
     .example = MAP_EXAMPLE(
         R"((call $map.set $m "b" 1) (call $map.set $m "a" 2) (call $io.print (call $list.join (call $map.keys $m) (string " "))))"),
     .prints = "b a",
     .handler = keys},
    {.module = "map",
     .name = "top",
     .params = {kMap, {"count", Type::kI32}},
     .result = Type::kBytes,
     .result_name = "list",
     .cost = {.base = 40, .per_byte = 2, .works = true},
     .summary =
         "So many keys with the largest numbers, the largest first; those with equal ones in the order of "
         "their bytes.",
     .example = MAP_EXAMPLE(
         R"((call $map.set $m "b" 1) (call $map.set $m "a" 2) (call $io.print (call $list.join (call $map.top $m 10) (string " "))))"),
     .prints = "a b",
     .handler = top},
};

#undef MAP_EXAMPLE

}  // namespace

std::span<const FunctionSpec> map_functions() { return kFunctions; }

}  // namespace membrane::host
