#include "linux/image/layer_writer.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/private_file.h"
#include "base/sha256.h"

namespace membrane::linux {
namespace {

constexpr uint32_t kNone = UINT32_MAX;
constexpr size_t kPieceBytes = 1u << 20;

bool is_zero(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; });
}

constexpr uint64_t round_up(uint64_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes; }

// The destination of an image's bytes: a NewFile, or another's file.
class OpenFile {
 public:
  explicit OpenFile(int file) : file_(file) {}
  Status write(uint64_t offset, std::span<const uint8_t> bytes) const {
    while (!bytes.empty()) {
      const ssize_t wrote = pwrite(file_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote <= 0) return refused_by_system("write", "an image");
      offset += static_cast<uint64_t>(wrote);
      bytes = bytes.subspan(static_cast<size_t>(wrote));
    }
    return {};
  }

 private:
  const int file_;
};

// Appends bytes to a file. Pages of zeros become holes.
template <typename File>
class Output {
 public:
  Output(File& file, Sha256* digest) : file_(file), digest_(digest) {}
  Status add(std::span<const std::byte> bytes) {
    if (digest_ != nullptr) digest_->add({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    if (!is_zero(bytes))
      MEMBRANE_TRY(file_.write(at_, {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}));
    at_ += bytes.size();
    return {};
  }
  Status pad(uint64_t multiple) {
    static constexpr std::array<std::byte, kPageBytes> kZeros = {};
    return add(std::span(kZeros).first((multiple - at_ % multiple) % multiple));
  }
  template <typename T>
  Status add_all(const std::vector<T>& values) {
    return add(std::as_bytes(std::span(values)));
  }
  [[nodiscard]] uint64_t at() const { return at_; }

 private:
  File& file_;
  Sha256* const digest_;
  uint64_t at_ = kPageBytes;
};

std::span<const uint8_t> bytes_of(const LayerHeader& header) {
  return {reinterpret_cast<const uint8_t*>(&header), sizeof header};
}

void set_digest(LayerHeader& header, const std::string& hex) {
  std::memcpy(header.digest, hex.data(), std::min(hex.size(), sizeof header.digest));
  header.check = check_of(header);
}

}  // namespace

// The index of a tree, in the order of layer.h.
class LayerWriting {
 public:
  explicit LayerWriting(const LayerTree& tree) : tree_(tree), numbers_(tree.nodes_.size(), kNone) {}

  Status index() {
    number(0);
    for (uint32_t at = 0; at < order_.size(); ++at) {
      LayerInode inode = inode_of(at);
      const auto& made = tree_.nodes_[order_[at]];
      if ((inode.mode & S_IFMT) == S_IFDIR) {
        inode.at = entries_.size();
        inode.size = made.children.size();
        for (const auto& [name, child] : made.children) {
          const uint32_t below = number(child);
          if ((tree_.nodes_[child].item.mode & S_IFMT) == S_IFDIR) {
            parents_[below] = at;
            ++inode.links;
          }
          ++links_[below];
          entries_.push_back({add_string(name), static_cast<uint32_t>(name.size()), below});
        }
      }
      inodes_.push_back(inode);
    }
    for (uint32_t at = 0; at < inodes_.size(); ++at) {
      if ((inodes_[at].mode & S_IFMT) == S_IFDIR) inodes_[at].parent = parents_[at];
      else inodes_[at].links = links_[at];
    }
    return check_size();
  }

  // Holes count, since they are read and hashed like data.
  [[nodiscard]] Status check_size() const {
    const uint64_t most = tree_.limits_.most_bytes;
    uint64_t left = most;
    for (const LayerInode& inode : inodes_) {
      if ((inode.mode & S_IFMT) != S_IFREG) continue;
      if (inode.size > left)
        return fail(ErrorCode::kTooLong,
                    "the files of the image have more than " + std::to_string(most >> 30) +
                        " GiB together, holes included",
                    "Remove large sparse files before making the image.");
      left -= inode.size;
    }
    return {};
  }

  template <typename Output>
  Status write_contents(Output& output) {
    for (uint32_t at = 0; at < inodes_.size(); ++at) {
      LayerInode& inode = inodes_[at];
      if ((inode.mode & S_IFMT) != S_IFREG || inode.size == 0) continue;
      inode.at = output.at();
      MEMBRANE_TRY(copy(tree_.nodes_[order_[at]].item, output));
      MEMBRANE_TRY(output.pad(kPageBytes));
    }
    return {};
  }

  template <typename Output>
  Status write_index(Output& output, LayerHeader& header, std::string_view config) {
    header.config_bytes = config.size();
    header.config_at = add_string(config);
    header.inode_count = static_cast<uint32_t>(inodes_.size());
    header.entry_count = entries_.size();
    header.inodes_at = output.at();
    MEMBRANE_TRY(output.add_all(inodes_));
    header.entries_at = output.at();
    MEMBRANE_TRY(output.add_all(entries_));
    header.strings_at = output.at();
    header.string_bytes = strings_.size();
    MEMBRANE_TRY(output.add(std::as_bytes(std::span(strings_))));
    MEMBRANE_TRY(output.pad(kPageBytes));
    header.file_bytes = output.at();
    return {};
  }

 private:
  uint32_t number(uint32_t node) {
    if (numbers_[node] == kNone) {
      numbers_[node] = static_cast<uint32_t>(order_.size());
      order_.push_back(node);
      parents_.push_back(0);
      links_.push_back(0);
    }
    return numbers_[node];
  }

  uint64_t add_string(std::string_view text) {
    const uint64_t at = strings_.size();
    strings_ += text;
    return at;
  }

  LayerInode inode_of(uint32_t at) {
    const LayerItem& item = tree_.nodes_[order_[at]].item;
    LayerInode inode{.mode = item.mode,
                     .uid = item.uid,
                     .gid = item.gid,
                     .links = (item.mode & S_IFMT) == S_IFDIR ? 2u : 0u,
                     .modified_s = item.modified.tv_sec,
                     .modified_ns = static_cast<uint32_t>(item.modified.tv_nsec)};
    if ((item.mode & S_IFMT) == S_IFLNK) {
      inode.at = add_string(item.target);
      inode.size = item.target.size();
    } else if ((item.mode & S_IFMT) == S_IFREG) {
      inode.size = item.size;
    } else if ((item.mode & S_IFMT) != S_IFDIR) {
      inode.at = item.special;
    }
    inode.attributes_at = strings_.size();
    for (const auto& [name, value] : item.attributes) {
      const auto name_bytes = static_cast<uint16_t>(name.size());
      const auto value_bytes = static_cast<uint32_t>(value.size());
      strings_.append(reinterpret_cast<const char*>(&name_bytes), sizeof name_bytes);
      strings_.append(reinterpret_cast<const char*>(&value_bytes), sizeof value_bytes);
      strings_ += name;
      strings_ += value;
    }
    inode.attribute_bytes = static_cast<uint32_t>(strings_.size() - inode.attributes_at);
    return inode;
  }

  Result<size_t> read(const LayerItem& item, uint64_t offset, std::span<std::byte> to) const {
    if (item.contents) return item.contents->read(offset, to);
    const ssize_t got = pread(item.fd, to.data(), to.size(), static_cast<off_t>(item.at + offset));
    if (got < 0) return refused_by_system("read", "the contents of an image");
    return static_cast<size_t>(got);
  }

  template <typename Output>
  Status copy(const LayerItem& item, Output& output) {
    buffer_.resize(kPieceBytes);
    for (uint64_t done = 0; done < item.size;) {
      const size_t wanted = std::min<uint64_t>(kPieceBytes, item.size - done);
      MEMBRANE_ASSIGN(const size_t got, read(item, done, std::span(buffer_).first(wanted)));
      if (got == 0)
        return fail(ErrorCode::kInvalidInput, "the contents of an image shrank while they were read");
      std::span<const std::byte> bytes(buffer_.data(), got);
      // By page, so that holes stay holes; runs of others in one go.
      while (!bytes.empty()) {
        size_t run = std::min<size_t>(kPageBytes, bytes.size());
        const bool zero = is_zero(bytes.first(run));
        while (run < bytes.size()) {
          const auto next = bytes.subspan(run, std::min<size_t>(kPageBytes, bytes.size() - run));
          if (is_zero(next) != zero) break;
          run += next.size();
        }
        MEMBRANE_TRY(output.add(bytes.first(run)));
        bytes = bytes.subspan(run);
      }
      done += got;
    }
    return {};
  }

  const LayerTree& tree_;
  std::vector<uint32_t> numbers_, order_, parents_, links_;
  std::vector<LayerInode> inodes_;
  std::vector<LayerEntry> entries_;
  std::string strings_;
  std::vector<std::byte> buffer_;
};

template <typename Output>
Result<LayerHeader> LayerTree::write_to(Output& output, std::string_view config) const {
  LayerWriting writing(*this);
  MEMBRANE_TRY(writing.index());
  MEMBRANE_TRY(writing.write_contents(output));
  LayerHeader header;
  MEMBRANE_TRY(writing.write_index(output, header, config));
  return header;
}

Result<std::string> LayerTree::write(const std::string& path, std::string_view config) const {
  MEMBRANE_ASSIGN(NewFile file, NewFile::create(path));
  MEMBRANE_ASSIGN(Sha256 digest, Sha256::begin());
  Output output(file, &digest);
  MEMBRANE_ASSIGN(LayerHeader header, write_to(output, config));
  MEMBRANE_ASSIGN(const std::string hex, digest.finish());
  set_digest(header, hex);
  MEMBRANE_TRY(file.resize(header.file_bytes));
  MEMBRANE_TRY(file.write(0, bytes_of(header)));
  MEMBRANE_TRY(file.publish());
  return hex;
}

Status LayerTree::write_unsealed(int file, std::string_view config) const {
  OpenFile to(file);
  if (ftruncate(file, 0) != 0) return refused_by_system("write", "an image");
  Output output(to, nullptr);
  MEMBRANE_ASSIGN(const LayerHeader header, write_to(output, config));  // its check is 0
  if (ftruncate(file, static_cast<off_t>(header.file_bytes)) != 0)
    return refused_by_system("write", "an image");
  return to.write(0, bytes_of(header));
}

Result<std::string> seal_image(int file) {
  struct stat status = {};
  LayerHeader header;
  const LayerHeader fresh;
  if (fstat(file, &status) != 0 || pread(file, &header, sizeof header, 0) != sizeof header)
    return refused_by_system("read", "an image");
  if (std::memcmp(header.magic, fresh.magic, sizeof header.magic) != 0 || header.version != fresh.version ||
      header.file_bytes < kPageBytes || header.file_bytes != static_cast<uint64_t>(status.st_size))
    return fail(ErrorCode::kInvalidInput, "what was written is not an image");
  MEMBRANE_ASSIGN(Sha256 digest, Sha256::begin());
  std::vector<char> buffer(kPieceBytes);
  for (uint64_t at = kPageBytes; at < header.file_bytes;) {
    const ssize_t got = pread(file, buffer.data(), std::min<uint64_t>(buffer.size(), header.file_bytes - at),
                              static_cast<off_t>(at));
    if (got <= 0) return refused_by_system("read", "an image");
    digest.add({buffer.data(), static_cast<size_t>(got)});
    at += static_cast<uint64_t>(got);
  }
  MEMBRANE_ASSIGN(const std::string hex, digest.finish());
  set_digest(header, hex);
  MEMBRANE_TRY(OpenFile(file).write(0, bytes_of(header)));
  return hex;
}

}  // namespace membrane::linux
