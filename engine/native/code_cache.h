// Machine code of large modules, kept in files: a module that was compiled once is mapped from then on, and neither
// validated nor compiled again.
//
// A file is for one module, byte for byte (by its SHA-256), and for the program that made it, build for build. It is
// used only when it is the user's own, nobody else may write to it, and its checksum is right. Any other file is
// ignored, and made again.
//
// Code that is run is trusted code, so the directory must belong to the user and be closed to others. A program that
// trusts the code of a module can trust that the module was valid.
//
// Threads: any; processes may share the directory.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/mapped_vector.h"
#include "base/result.h"
#include "engine/native/code_arena.h"
#include "wasm/module.h"

namespace membrane::engine::native {

// What the validator found out about a function's frame, in slots, and about the features that it uses,
// on which its code depends.
struct FrameSlots {
  uint32_t zero;          // locals after the parameters
  uint32_t whole;         // with operands
  uint32_t uses_vectors;  // 1 when it does
};

// The code of a module's functions, one after the other.
struct ModuleImage {
  CodeBlock block;
  MappedVector<uint32_t> starts;   // of functions, ascending
  MappedVector<uint32_t> indices;  // theirs, ascending
  std::vector<FrameSlots> frames;  // of all functions that the module defines, with code or without
};

class CodeCache {
 public:
  // Making less code than this is quicker than finding it.
  static constexpr size_t kLeastCodeBytes = 64u << 10;
  // The most that all files may have together; beyond that, the least recently used ones are
  // removed.
  static constexpr uint64_t kMostFileBytes = 1ull << 30;

  // Makes the directory when it is not there. Errors: kInvalidArgument for one that others could write to,
  // kUnavailable for what the system refuses.
  static Result<CodeCache> open(const std::string& directory);

  // Nothing when the module is not in the cache, or its file cannot be used.
  [[nodiscard]] std::optional<ModuleImage> find(const wasm::Module& module) const;
  // Errors: kUnavailable, which callers can ignore: the module is compiled again the next time.
  Status keep(const wasm::Module& module, const ModuleImage& image) const;
  // The path of the file for the module's code, whether it exists or not. kUnsupported for a module that is not
  // kept: one that was not read from a binary.
  [[nodiscard]] Result<std::string> path_of(const wasm::Module& module) const;

 private:
  explicit CodeCache(std::string directory) : directory_(std::move(directory)) {}

  std::string directory_;
};

}  // namespace membrane::engine::native
