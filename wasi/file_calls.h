// File functions for a language whose module imports no WASI functions for them: the host calls the same functions
// for the program, over memory that lasts for one call. So they are decided, paid, journaled and refused like those
// of a WASI program.
//
// Differences: paths are absolute, and the program cannot use the descriptor of "/" and the device /dev/membrane.
//
// Threads: one at a time.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "wasi/system.h"

namespace membrane::wasi {

class FileCalls {
 public:
  // Both are borrowed, and must not be inside another call of the system.
  FileCalls(System& system, host::Guest& guest) : system_(system), guest_(guest) {}

  struct Opening {
    bool write = false, create = false, exclusive = false, truncate = false, append = false;
  };
  struct Entry {
    std::string name;
    FileType type = FileType::kUnknown;
  };

  Answer<uint32_t> open(std::string_view path, const Opening& how);
  Done close(uint32_t descriptor);
  // At the descriptor's own offset, which advances, or at a given one. Reading fewer bytes than requested is not an
  // error.
  Answer<std::string> read(uint32_t descriptor, uint32_t count, std::optional<uint64_t> offset);
  Answer<uint32_t> write(uint32_t descriptor, std::string_view bytes, std::optional<uint64_t> offset);
  Done resize(uint32_t descriptor, uint64_t size);
  Answer<FileStat> stat(uint32_t descriptor);
  Answer<FileStat> stat(std::string_view path, bool follow);
  // Without "." and "..". EFBIG when the names exceed `most_bytes`.
  Answer<std::vector<Entry>> list(std::string_view path, uint64_t most_bytes);
  Done make_directory(std::string_view path) { return by_path("path_create_directory", path); }
  Done remove_directory(std::string_view path) { return by_path("path_remove_directory", path); }
  Done unlink(std::string_view path) { return by_path("path_unlink_file", path); }
  Done rename(std::string_view from, std::string_view to);
  Done link(std::string_view from, std::string_view to);
  Done symlink(std::string_view target, std::string_view path);
  Answer<std::string> read_link(std::string_view path);
  Done set_times(std::string_view path, uint64_t accessed_ns, uint64_t modified_ns);

  // How the last call ended. After kOutOfFuel it can be repeated: it did nothing that cannot be done again.
  [[nodiscard]] End end() const { return end_; }

 private:
  Done call(std::string_view name, std::initializer_list<uint64_t> arguments);
  Done by_path(std::string_view name, std::string_view path);
  uint32_t place(std::string_view bytes);
  uint32_t place_path(std::string_view path);
  uint32_t room(size_t bytes);
  template <typename T>
  [[nodiscard]] T load(uint32_t at) const;
  [[nodiscard]] FileStat load_stat(uint32_t at) const;
  [[nodiscard]] bool is_for_programs(uint32_t descriptor) const;

  System& system_;
  host::Guest& guest_;
  std::vector<uint8_t> memory_;
  uint32_t path_bytes_ = 0;  // of the last path that was placed
  End end_ = End::kReturn;
};

}  // namespace membrane::wasi
