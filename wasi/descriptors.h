// A program's open descriptors.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "host/errno.h"
#include "wasi/path_walk.h"
#include "wasi/types.h"

namespace membrane::wasi {

enum class Standard : uint8_t { kIn, kOut, kErr };

// A line of a directory, as first read.
struct ListedName {
  std::string name;
  Inode inode = 0;
  FileType type = FileType::kUnknown;
};
using Listing = std::vector<ListedName>;
// The host memory that it takes when its capacity is exact.
uint64_t bytes_of(const Listing& listing);

struct OpenDirectory {
  Place place;
  std::shared_ptr<const Listing> listing = nullptr;  // since the directory was read from its start
  uint64_t listing_bytes = 0;                        // of `listing`
};
struct OpenFile {
  Inode inode = 0;
};
struct OpenDevice {
  Inode inode = 0;
  Device device{};
  std::string answer;  // of /dev/membrane
  size_t answer_at = 0;
};
// A file of a granted directory. The handle is the broker's; if it is missing, the file is reopened at its next use
// (a fork and a thawed run start this way).
struct OpenHostFile {
  std::string path;
  bool writes = false;
  std::optional<uint64_t> handle = {};
  uint64_t bytes_in = 0, bytes_out = 0;  // since the file was opened, for the report
  std::optional<host::HostError> last_error = {};

  // The same file for a fork: identified by its name.
  [[nodiscard]] OpenHostFile by_name() const { return {.path = path, .writes = writes}; }
};

struct Descriptor {
  std::variant<Standard, OpenDirectory, OpenFile, OpenDevice, OpenHostFile> is;
  Rights rights = 0;
  Rights inheriting = 0;
  uint16_t flags = 0;
  uint64_t offset = 0;
  bool is_preopened = false;

  [[nodiscard]] FileType type() const {
    if (std::holds_alternative<OpenDirectory>(is)) return FileType::kDirectory;
    if (std::holds_alternative<OpenFile>(is) || std::holds_alternative<OpenHostFile>(is))
      return FileType::kRegularFile;
    // Streams are not terminals, for which libraries would take a character device.
    return std::holds_alternative<Standard>(is) ? FileType::kUnknown : FileType::kCharacterDevice;
  }
  // In the instance's own tree, or 0.
  [[nodiscard]] Inode inode() const {
    if (const auto* file = std::get_if<OpenFile>(&is)) return file->inode;
    if (const auto* device = std::get_if<OpenDevice>(&is)) return device->inode;
    if (const auto* directory = std::get_if<OpenDirectory>(&is)) return directory->place.inode;
    return 0;
  }
};

class Descriptors {
 public:
  // Null when it is not open.
  Descriptor* find(uint32_t number) {
    const auto found = open_.find(number);
    return found == open_.end() ? nullptr : &found->second;
  }
  // Uses the lowest free number. EMFILE.
  Answer<uint32_t> add(Descriptor descriptor) {
    if (open_.size() >= kMaxDescriptors) return fail(Errno::kMfile);
    uint32_t number = 0;
    for (const auto& [taken, unused] : open_) {
      if (taken != number) break;
      ++number;
    }
    open_.emplace(number, std::move(descriptor));
    return number;
  }
  void put(uint32_t number, Descriptor descriptor) { open_.insert_or_assign(number, std::move(descriptor)); }
  Descriptor take(uint32_t number) {
    Descriptor taken = std::move(open_.at(number));
    open_.erase(number);
    return taken;
  }
  // A copy without the handles of host files.
  [[nodiscard]] Descriptors by_name() const {
    Descriptors copy = *this;
    for (auto& [number, descriptor] : copy.open_)
      if (auto* file = std::get_if<OpenHostFile>(&descriptor.is)) *file = OpenHostFile(file->by_name());
    return copy;
  }
  // Bytes of answers that programs have not read from /dev/membrane, including the parts already read of the same
  // answers.
  [[nodiscard]] uint64_t answer_bytes() const {
    uint64_t bytes = 0;
    for (const auto& [number, descriptor] : open_)
      if (const auto* device = std::get_if<OpenDevice>(&descriptor.is)) bytes += device->answer.size();
    return bytes;
  }
  // Bytes of the listings. Listings shared by copies count for each.
  [[nodiscard]] uint64_t listing_bytes() const {
    uint64_t bytes = 0;
    for (const auto& [number, descriptor] : open_)
      if (const auto* directory = std::get_if<OpenDirectory>(&descriptor.is))
        bytes += directory->listing_bytes;
    return bytes;
  }
  [[nodiscard]] bool is_full() const { return open_.size() >= kMaxDescriptors; }
  [[nodiscard]] bool has_open(Inode inode) const {
    for (const auto& [number, descriptor] : open_)
      if (descriptor.inode() == inode) return true;
    return false;
  }
  [[nodiscard]] const std::map<uint32_t, Descriptor>& all() const { return open_; }
  [[nodiscard]] std::map<uint32_t, Descriptor>& all() { return open_; }

 private:
  std::map<uint32_t, Descriptor> open_;
};

}  // namespace membrane::wasi
