// An instance between two calls, which others start from: a warm interpreter, with its modules imported, from
// which a fresh sandbox starts in microseconds.
//
//   auto image = InstanceImage::capture(instance);              // after its initialising calls
//   auto fork = (*image)->instantiate(store, resolver, limits);  // as often as wanted
//   run.start((*fork)->find_function("turn"), arguments);
//
// A fork shares what it does not change: functions and tables until they are written, pages of memory one by one
// (memory_image.h). What it costs is address space and the pages that it touches.
//
// Unlike a snapshot (snapshot.h), it belongs to this process and to a loaded module, and nothing runs in it: use
// snapshots for a run in the middle of a call. image_changes.h keeps the changes since an image as bytes.
//
// Ownership: an image keeps its module, and memories of its instances keep what they need. Threads: any number may
// instantiate() at once; capture() is for the thread that has the instance.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <vector>

#include "base/result.h"
#include "engine/instance/instance.h"

namespace membrane::engine {

// XXH3, 128 bits: detects mistakes, not forgeries.
using ImageIdentity = std::array<uint64_t, 2>;

class InstanceImage {
 public:
  // Exceptions that it caught and cannot reach any more are left out. Errors: kUnsupported for an instance that shares
  // anything with others, has structs or arrays, or may hold an exception in a global or a table; kExhausted when the
  // system has no room for its memory.
  // kChanges: when the instance was made from an image, only what it changed is copied, at the price of copying it
  // again into each of its own instances. For a step back, or few forks; kWhole for many.
  enum class Keep : uint8_t { kWhole, kChanges };
  static Result<std::shared_ptr<const InstanceImage>> capture(Instance& instance, Keep keep = Keep::kWhole);

  // As the instance was. Data and element segments are not written again, and its start function does not run.
  std::expected<Instance*, LinkError> instantiate(Store& store, const Resolver& resolver,
                                                  const InstanceLimits& limits) const;

  [[nodiscard]] const std::shared_ptr<CompiledModule>& module() const { return module_; }
  [[nodiscard]] uint64_t memory_bytes() const;   // the size of its memories
  [[nodiscard]] uint64_t changed_bytes() const;  // of kChanges: what was copied of its memories
  // Identifies the contents: module, memories, tables, globals and segments; the same in every process. Calculated at the
  // first call, unless the image came from a file. Errors: kUnsupported for what holds references that are no functions
  // of its module.
  [[nodiscard]] Result<ImageIdentity> identity() const;

 private:
  friend struct ImageFile;     // image_file.cc
  friend struct ImageChanges;  // image_changes.cc
  InstanceImage() = default;

  struct MemoryState {
    MemoryStart start;
    uint64_t bytes = 0;
    // For kChanges: what differs from the start's image, one run after the other. (A string can be filled without being
    // zeroed first.)
    std::vector<MemoryRange> changes = {};
    std::string content = {};
  };
  static Result<MemoryState> whole(const Memory& memory);
  static std::optional<MemoryState> changes(const Memory& memory);
  Result<ImageIdentity> make_identity() const;
  struct TableState {
    TableElements elements;
    // Elements that are imports, which are different in each Store: place, and the function's
    // index.
    std::vector<std::pair<size_t, uint32_t>> imports;
  };
  struct GlobalState {
    uint64_t bits = 0, high_bits = 0;
    uint32_t import = UINT32_MAX;  // of a global that holds an imported function
  };
  struct SegmentState {
    std::vector<uint64_t> elements;
    std::vector<std::pair<size_t, uint32_t>> imports;
  };

  std::shared_ptr<CompiledModule> module_;
  std::vector<MemoryState> memories_;
  std::vector<TableState> tables_;
  std::vector<GlobalState> globals_;
  std::vector<std::pair<size_t, SegmentState>> segments_;  // those that are not empty
  std::vector<bool> dropped_datas_;
  mutable std::once_flag identity_once_;
  mutable Result<ImageIdentity> identity_;
};

}  // namespace membrane::engine
