// The owner's access to the sandbox's files (live_computer.h), in the kernel's thread: by path, as the
// superuser.
//
// Nothing here recurses over data that a guest has made. Errors: kNotFound, kDenied, kInvalidInput, kTooLong,
// kExhausted, with the path.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "linux/kernel/kernel.h"
#include "linux/sandbox/live_computer.h"

namespace membrane::linux {

// The error to report to the owner for an error of a path or file.
std::unexpected<Error> refused(const std::string& path, int error);

class OutsideFiles {
 public:
  explicit OutsideFiles(Kernel& kernel);

  Result<FileFacts> stat(const std::string& path, bool follows_links);
  // Sorted by path. Errors: kTooLong for more than an answer may have.
  Result<std::vector<FileFacts>> list(const std::string& path);
  Result<std::string> read(const std::string& path, uint64_t offset, uint64_t most_bytes);
  Status make_directory(const std::string& path, uint32_t mode);
  Status make_link(const std::string& path, const std::string& target);
  Status set_owner(const std::string& path, uint32_t user, uint32_t group);
  Status set_mode(const std::string& path, uint32_t mode);
  Status move(const std::string& from, const std::string& to);
  Status remove(const std::string& path, bool with_contents);

  // Writes a file in pieces, in which pages of zeros become holes. Guests see it when it is complete; if the
  // write fails or is abandoned, it is removed and the existing file stays.
  Status begin_write(uint64_t number, const std::string& path, uint32_t mode);
  Status write_piece(uint64_t number, std::string_view bytes);
  Status end_write(uint64_t number);
  void leave_write(uint64_t number);

 private:
  static constexpr size_t kMostWritings = 64;
  struct Writing {
    std::string path, name, other_name;  // other_name: until it is complete; "" while it has no name
    NodeRef directory, file;
    uint64_t size = 0;  // including a hole at the end, which is made on completion
    uint64_t written = 0;
  };
  Try<LocationRef> find(const std::string& path, bool follows_links = true);
  Try<Parent> parent_of(const std::string& path);
  Try<LocationRef> make_parents(const std::string& path);
  Try<Writing> open_writing(uint64_t number, const std::string& path, uint32_t mode);
  static Done append(Writing& writing, std::span<const std::byte> bytes);
  Done commit(Writing& writing, uint64_t number);
  void drop(const Writing& writing);
  Done create(const std::string& path, NewNode made);
  Done move_to(const Parent& from, const Parent& to);
  Done remove_tree(const Parent& parent, const NodeRef& top);
  Done unlink(Node& directory, const std::string& name, Node& node);
  Try<std::string> read_node(const NodeRef& node, uint64_t offset, uint64_t most);

  Kernel& kernel_;
  const Place place_;
  std::map<uint64_t, Writing> writings_;  // by the order's number
};

}  // namespace membrane::linux
