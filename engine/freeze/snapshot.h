// Freezing a run into bytes, and thawing it: later, in another process, in another tier, on
// another kind of processor. The format: docs/snapshot-format.md.
//
// A run that is paused (out of fuel, interrupted, or not yet begun) is at a safepoint:
// at the head of a segment, or before or after a call of the host. There its frames mean
// the same in every tier, so a snapshot holds no address and no machine code: functions
// are indices, places are offsets into their bodies, references are indices of functions, exceptions or objects.
//
// The host's state is not in it. A snapshot has a part for the embedder; imports are resolved again
// when it is thawed. An instance that shares memories, tables, globals, tags or exceptions with
// others cannot be frozen.
//
// Threads: freeze() is called by the thread that has the Execution. Snapshot::read() may be called by any thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/execution/execution.h"

namespace membrane::engine {

namespace native {
class CodeCache;
}
struct FunctionCode;
struct Recorder;

// Written only for a run that is about to call a host function that its last frame does not call itself (a callee ended in
// a tail call of it). All others are version 2; both are read.
inline constexpr uint32_t kNewestSnapshotVersion = 3;

// Errors: kInvalidArgument when the run is not paused; kUnsupported for what cannot be frozen.
// `fuel_before` is what the run had used when it was thawed itself.
Result<std::vector<uint8_t>> freeze(Execution& run, Instance& instance,
                                    std::span<const uint8_t> embedder_state = {}, uint64_t fuel_before = 0);

// What was found out about places in a module's code while frames were frozen and thawed, kept since frames are at the
// same places again and again. Ownership: the module must outlive it. Threads: any.
class KnownPlaces {
 public:
  explicit KnownPlaces(std::shared_ptr<CompiledModule> module);
  ~KnownPlaces();

 private:
  friend struct SnapshotWriter;
  friend struct SnapshotReader;
  friend class Snapshot;
  friend Result<std::vector<uint8_t>> freeze_frames(Execution&, Instance&, KnownPlaces&);
  friend Status thaw_frames(std::span<const uint8_t>, Execution&, Instance&, KnownPlaces&);
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// Only the frames of such a run: for a run whose instance is kept as an image (instance_image.h), and which continues
// in an instance of that image. `known` is of the same module. Errors: as freeze(); kUnsupported for a program with
// structs, arrays or kept exceptions.
Result<std::vector<uint8_t>> freeze_frames(Execution& run, Instance& instance, KnownPlaces& known);
// Checks them, and puts them back as Snapshot::resume_in() does, with its errors; kInvalidInput also for frames that
// the module of `instance` cannot have.
Status thaw_frames(std::span<const uint8_t> frames, Execution& run, Instance& instance, KnownPlaces& known);

// The embedder's part of a snapshot; the rest is not checked. It borrows from the bytes. Errors: kInvalidInput
// for bytes that are damaged or not a snapshot, kUnsupported for another version.
Result<std::span<const uint8_t>> embedder_part(std::span<const uint8_t> snapshot);

// The snapshot with another embedder's part. Errors: the same.
Result<std::vector<uint8_t>> with_embedder_part(std::span<const uint8_t> snapshot,
                                                std::span<const uint8_t> part);

// A snapshot that was read and checked: complete, of a version and a cost table that this engine knows,
// with a valid module.
class Snapshot {
 public:
  // Errors: kInvalidInput for bytes that are damaged or not a snapshot; kUnsupported for another
  // version. `tier` and `cache` as for compile_module().
  static Result<Snapshot> read(std::vector<uint8_t> bytes, Tier tier = Tier::kAuto,
                               const native::CodeCache* cache = nullptr);
  static Result<Snapshot> read(std::span<const uint8_t> bytes, Tier tier = Tier::kAuto,
                               const native::CodeCache* cache = nullptr) {
    return read(std::vector<uint8_t>(bytes.begin(), bytes.end()), tier, cache);
  }

  [[nodiscard]] const std::shared_ptr<CompiledModule>& module() const { return module_; }
  [[nodiscard]] std::span<const uint8_t> embedder_state() const { return embedder_state_; }
  [[nodiscard]] uint64_t fuel_used() const { return fuel_used_; }
  // The function that was called from outside.
  [[nodiscard]] uint32_t entry() const { return entry_; }
  // The imported function that it calls next; nothing when it is elsewhere.
  [[nodiscard]] std::optional<uint32_t> awaited() const {
    return host_call_ == UINT32_MAX ? std::nullopt : std::optional(host_call_);
  }

  // Makes the instance in `store` as it was. Its data and element segments are not written again, and its
  // start function does not run.
  std::expected<Instance*, LinkError> instantiate(Store& store, const Resolver& resolver,
                                                  const InstanceLimits& limits) const;
  // Restores the frames; `run` is as if it had been paused there, with the fuel that it was given less what
  // it still owes for a host call. Errors: kInvalidInput when the frames do not fit the module; kExhausted
  // when they exceed the limits of `run`, which has then ended.
  Status resume_in(Execution& run, Instance& instance) const;

 private:
  struct Frame {
    uint32_t function = 0;
    uint32_t code_offset = 0;
    size_t first_slot = 0;  // in frame_slots_: locals, then operands
  };
  struct ObjectState {
    uint32_t type = 0, length = 0;
  };
  struct GlobalState {
    uint64_t bits = 0, high_bits = 0;
  };
  struct MemoryState {
    uint32_t pages = 0;
    std::vector<MemoryPart> parts;
  };
  struct Images {
    std::mutex mutex;
    uint64_t thawed = 0;  // so often
    std::vector<std::shared_ptr<const MemoryImage>> images;
  };
  std::shared_ptr<const MemoryImage> image_of(size_t memory) const;
  Status place_frames(Execution& run, Instance& instance) const;
  void place_tail_call(Execution& run, Instance& instance) const;
  void find_headers(std::map<std::pair<const FunctionCode*, uint32_t>, Recorder>& headers) const;
  bool keep_exceptions(Instance& instance) const;
  bool keep_objects(Instance& instance) const;
  friend struct SnapshotReader;
  friend struct SnapshotWriter;
  friend Status thaw_frames(std::span<const uint8_t>, Execution&, Instance&, KnownPlaces&);

  std::shared_ptr<std::vector<uint8_t>> bytes_;
  std::shared_ptr<CompiledModule> module_;
  std::span<const uint8_t> embedder_state_;
  std::vector<GlobalState> globals_;
  std::vector<MemoryState> memories_;
  std::shared_ptr<Images> images_ = std::make_shared<Images>();
  std::vector<std::vector<uint64_t>> tables_;  // function index plus one, or the embedder's number plus one
  std::vector<bool> dropped_elements_, dropped_datas_;
  std::vector<std::vector<uint64_t>> element_values_;  // of segments that may refer to objects
  std::vector<Frame> frames_;                          // outermost first
  std::vector<uint64_t> frame_slots_;
  std::vector<std::pair<size_t, uint8_t>>
      frame_references_;              // which of these are references, ascending; and of what
  std::vector<uint32_t> exceptions_;  // the tag of each
  std::vector<uint64_t> exception_slots_;
  std::vector<ObjectState> objects_;
  std::span<const uint8_t> object_fields_;  // of all, one after the other
  uint64_t heap_threshold_ = 0;
  uint32_t entry_ = 0;
  uint32_t host_call_ = UINT32_MAX;  // the imported function that is called first
  uint64_t fuel_used_ = 0;
  uint64_t fuel_owed_ = 0;
  KnownPlaces::Parts* known_ = nullptr;  // of frames that are thawed alone
};

}  // namespace membrane::engine
