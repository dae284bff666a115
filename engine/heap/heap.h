// Structs and arrays: the objects of a Store, and the bits of references to them.
//
// A reference is a number in a 64-bit slot, and never an address, so that it means the same in a snapshot:
//
//   anyref and what is below it          externref
//   0                     null           0                    null
//   …1                    an i31         2^63 | anyref        an i31 or an object, converted
//   number << 2 | 2       an object      number below 2^62    the host's
//   number << 2           the host's, converted
//
// An object keeps its number for its life; a number is used again when its object has been collected. What refers to an
// object is found by its type (runtime_types.h): nothing but a reference is taken for one, and so what is
// live is the same in each tier and after thawing.
//
// The limit. An object counts as 32 bytes and its fields. The heap collects only when it would grow beyond its
// threshold, which depends on nothing but the allocations so far; so an allocation that fails does so in each
// tier, and after thawing. One fails when an eighth of the limit is not free after a collection: each
// collection is paid for by allocations of that size at least.
//
// Ownership: of its objects. Threads: one at a time, as for the Store.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "engine/heap/runtime_types.h"

namespace membrane::engine {

struct MemoryBudget;
class Heap;

// -- bits of references

inline constexpr uint64_t kObjectTag = 2, kObjectMask = 3, kI31Tag = 1, kInternalBit = uint64_t{1} << 63;

constexpr bool is_i31(uint64_t any) { return (any & kI31Tag) != 0; }
constexpr bool is_object(uint64_t any) { return (any & kObjectMask) == kObjectTag; }
constexpr uint64_t i31_bits(uint64_t value) { return (value & 0x7FFFFFFF) << 1 | kI31Tag; }
constexpr uint64_t object_bits(uint64_t number) { return number << 2 | kObjectTag; }
constexpr uint64_t object_number(uint64_t any) { return any >> 2; }
constexpr uint64_t any_of_extern(uint64_t bits) {
  return (bits & kInternalBit) != 0 ? bits & ~kInternalBit : bits << 2;
}
constexpr uint64_t extern_of_any(uint64_t bits) {
  return (bits & kObjectMask) != 0 ? bits | kInternalBit : bits >> 2;
}

// -- objects

struct alignas(16) Object {
  const RuntimeType* type = nullptr;
  uint32_t length = 0;  // of an array; 0 of a struct
  bool is_marked = false;
  [[nodiscard]] uint8_t* fields() { return reinterpret_cast<uint8_t*>(this + 1); }
  [[nodiscard]] const uint8_t* fields() const { return reinterpret_cast<const uint8_t*>(this + 1); }
};

// Finds what is live, from the roots that it is shown. Not recursive: a list may be as long as the heap is large.
class Tracer {
 public:
  explicit Tracer(std::vector<Object*>& objects) : objects_(objects) {}
  void show(Traced kind, uint64_t bits);
  void finish();  // everything that is reached from there

 private:
  void look_into(const Object& object);
  std::vector<Object*>& objects_;
  std::vector<const Object*> pending_;
};

// What was learned about frames while roots were shown, for the next collection. A HeapRun makes it.
class RootCache {
 public:
  virtual ~RootCache() = default;
};

// A run of a function of the Store, as the heap knows it.
class HeapRun {
 public:
  virtual ~HeapRun();  // leaves its heap
  HeapRun(const HeapRun&) = delete;
  HeapRun& operator=(const HeapRun&) = delete;

 protected:
  HeapRun() = default;
  // Shows the references in its frames and its results. `cache` is null before the first call for a heap.
  virtual void show_roots(Tracer& tracer, std::unique_ptr<RootCache>& cache) = 0;

  // Its guest code runs, or waits inside a call of the host: its place is known only when it stops.
  bool is_running_ = false;

 private:
  friend class Heap;
  Heap* heap_ = nullptr;
  HeapRun* previous_ = nullptr;
  HeapRun* next_ = nullptr;
};

class Heap {
 public:
  Heap();
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  // The bytes that an object counts as.
  static uint64_t bytes_of(const RuntimeType& type, uint32_t length);

  // The object of a reference that refers to one.
  [[nodiscard]] Object* object(uint64_t any) const { return objects_[object_number(any)]; }
  // Null for what is not an object: null, an i31, a number that is not in use.
  [[nodiscard]] Object* find(uint64_t any) const {
    return is_object(any) && object_number(any) < objects_.size() ? objects_[object_number(any)] : nullptr;
  }

  // The limit in bytes; it rises with each instance of the Store.
  void allow(uint64_t bytes) { limit_ += bytes; }
  [[nodiscard]] uint64_t bytes() const { return bytes_; }
  [[nodiscard]] uint64_t threshold() const { return threshold_; }
  // Makes room for an object, by a collection if one is due; `run` allocates, and is at a safepoint. Growth is
  // taken from `budget`, when there is one. False: there is no room.
  bool make_room(uint64_t bytes, HeapRun& run, MemoryBudget* budget);
  // The same without a collection, while an instance is made.
  bool make_room(uint64_t bytes, MemoryBudget* budget);
  // Sets the threshold of the frozen heap. False when it exceeds the limit.
  bool thaw(uint64_t threshold, MemoryBudget* budget);
  // An object whose fields are zero or null; 0 when the system has no memory. Room was made.
  uint64_t add(const RuntimeType& type, uint32_t length);
  // The number of the next object, if no free number is used again.
  [[nodiscard]] uint64_t end() const { return objects_.size(); }
  void forget_free_numbers() { free_.clear(); }
  // Calls visit(number, object) in the order of numbers.
  void each(auto visit) const {
    for (size_t i = 0; i < objects_.size(); ++i)
      if (objects_[i] != nullptr) visit(i, *objects_[i]);
  }

  // What the Store holds besides the frames of its runs.
  std::function<void(Tracer&)> roots;
  // The runs of its functions, whose frames and results are roots.
  void enter(HeapRun& run);
  static void leave(HeapRun& run);

 private:
  bool fits(uint64_t bytes) const { return bytes <= threshold_ && bytes_ <= threshold_ - bytes; }
  bool raise_threshold(uint64_t wanted, MemoryBudget* budget);
  void collect();
  bool is_run_from_within(const HeapRun& run) const;

  std::vector<Object*> objects_;  // by number; null where there is none. Number 0 is never used
  std::vector<uint32_t> free_;
  uint64_t bytes_ = 0;
  uint64_t threshold_ = 0;  // never falls
  uint64_t limit_ = 0;
  HeapRun* first_run_ = nullptr;
  std::unique_ptr<RootCache> root_cache_;
};

}  // namespace membrane::engine
