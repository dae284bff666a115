// Calls WASI functions as a program does, without an engine: numbers as arguments, structures in a memory.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "host/guest_testing.h"
#include "wasi/system.h"
#include "wasi/types.h"

namespace membrane::wasi {

void PrintTo(Errno code, std::ostream* out);  // gtest prints the name

struct Stat {
  uint64_t device, inode;
  FileType type;
  uint64_t links, size, accessed_ns, modified_ns, changed_ns;
};

class Program {
 public:
  static constexpr uint32_t kRoot = 3;  // the descriptor of "/"
  static constexpr Rights kRead = right::kFdRead | right::kFdSeek | right::kFdTell | right::kFdFilestatGet |
                                  right::kFdReaddir | right::kPollFdReadwrite;
  static constexpr Rights kReadWrite = kFileRights;

  explicit Program(Config config = {});
  explicit Program(std::unique_ptr<System> system_of_it) : system(std::move(system_of_it)) {}

  // Leaves the slots as they are.
  Errno call(std::string_view name, std::initializer_list<uint64_t> arguments) {
    return call_of(kModule, name, arguments);
  }
  Errno call_of(std::string_view module, std::string_view name, std::initializer_list<uint64_t> arguments);
  Outcome outcome;  // of the last call

  // Wrappers like those of a C library. The errno of the last call is kept.
  Errno error{};
  int64_t open(std::string_view path, uint32_t flags = 0, Rights rights = kRead, uint32_t fd_flags = 0,
               uint32_t directory = kRoot, uint32_t lookup = kSymlinkFollow);  // -1 on failure
  std::string read(uint32_t descriptor, uint32_t size = 4096);
  int64_t write(uint32_t descriptor, std::string_view bytes);  // -1 on failure
  Errno close(uint32_t descriptor) { return error = call("fd_close", {descriptor}); }
  Errno seek(uint32_t descriptor, int64_t by, Whence whence, uint64_t* target = nullptr);
  std::vector<std::string> names(std::string_view path);  // without "." and ".."; "d/" for a directory
  Stat stat(std::string_view path, uint32_t lookup = kSymlinkFollow);
  Errno path(std::string_view function, std::string_view path, uint32_t directory = kRoot);
  Errno mkdir(std::string_view name) { return path("path_create_directory", name); }
  Errno rmdir(std::string_view name) { return path("path_remove_directory", name); }
  Errno unlink(std::string_view name) { return path("path_unlink_file", name); }
  Errno rename(std::string_view from, std::string_view to);
  Errno link(std::string_view from, std::string_view to);
  Errno symlink(std::string_view target, std::string_view name);
  std::string readlink(std::string_view name);
  // Writes a whole file.
  Errno put(std::string_view path, std::string_view bytes);
  std::string get(std::string_view path);

  // Places bytes for the arguments of the next call to point to; they stay until the next free_memory().
  uint32_t place(std::string_view bytes);
  uint32_t room(uint32_t size);
  void free_memory() { next_ = 1024; }
  template <typename T>
  T load(uint32_t at) {
    T value;
    std::memcpy(&value, guest.memory().data() + at, sizeof value);
    return value;
  }
  std::string bytes(uint32_t at, uint32_t size);

  host::VectorGuest guest{16};
  std::unique_ptr<System> system;

 private:
  uint32_t next_ = 1024;
};

}  // namespace membrane::wasi
