#include "linux/image/layer.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "base/private_file.h"
#include "base/sha256.h"

namespace membrane::linux {
namespace {

std::unexpected<Error> damaged(const std::string& path, const char* what) {
  return fail(ErrorCode::kInvalidInput, path + " is not an image of this version: " + what,
              "Import the image again.");
}

bool is_inside(uint64_t at, uint64_t bytes, uint64_t end) { return at <= end && bytes <= end - at; }

bool is_sane(const LayerHeader& header, uint64_t file_bytes) {
  return header.file_bytes == file_bytes && header.entry_count <= file_bytes && header.inode_count > 0 &&
         header.inodes_at % alignof(LayerInode) == 0 && header.entries_at % alignof(LayerEntry) == 0 &&
         is_inside(header.inodes_at, header.inode_count * sizeof(LayerInode), file_bytes) &&
         is_inside(header.entries_at, header.entry_count * sizeof(LayerEntry), file_bytes) &&
         is_inside(header.strings_at, header.string_bytes, file_bytes);
}

template <typename T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

}  // namespace

uint64_t check_of(const LayerHeader& header) {
  uint64_t hash = 0xcbf29ce484222325;
  const auto* const bytes = reinterpret_cast<const unsigned char*>(&header);
  for (size_t i = 0; i < offsetof(LayerHeader, check); ++i) hash = (hash ^ bytes[i]) * 0x100000001b3;
  return hash;
}

Result<std::shared_ptr<const Layer>> Layer::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return refused_by_system("open", path);
  return open(fd, path);
}

Result<std::shared_ptr<const Layer>> Layer::open(int fd, const std::string& path) {
  std::shared_ptr<Layer> layer(new Layer);
  layer->fd_ = fd;
  struct stat status = {};
  if (fstat(layer->fd_, &status) != 0) return refused_by_system("read", path);
  if (!S_ISREG(status.st_mode)) return damaged(path, "it is not a regular file");
  LayerHeader header;
  if (pread(layer->fd_, &header, sizeof header, 0) != sizeof header) return damaged(path, "it is too short");
  layer->header_ = header;
  const LayerHeader wanted;
  if (std::memcmp(header.magic, wanted.magic, sizeof wanted.magic) != 0)
    return damaged(path, "it does not begin with an image's magic number");
  if (header.version != kLayerVersion) return damaged(path, "it has another version");
  if (header.check != check_of(header) || !is_sane(header, static_cast<uint64_t>(status.st_size)))
    return damaged(path, "its header is damaged");
  void* const got = mmap(nullptr, header.file_bytes, PROT_READ, MAP_SHARED, layer->fd_, 0);
  if (got == MAP_FAILED) return refused_by_system("map", path);
  layer->begin_ = static_cast<const std::byte*>(got);
  const auto root = layer->inode(0);
  if (!root || (root->mode & S_IFMT) != S_IFDIR) return damaged(path, "its root is not a directory");
  return layer;
}

Layer::~Layer() {
  if (begin_ != nullptr) munmap(const_cast<std::byte*>(begin_), header_.file_bytes);
  if (fd_ >= 0) close(fd_);
}

Status Layer::verify() const {
  if (header_.file_bytes < kPageBytes) return damaged("the file", "it is too short");
  MEMBRANE_ASSIGN(const std::string digest,
                  sha256_hex(std::string_view(reinterpret_cast<const char*>(begin_) + kPageBytes,
                                              header_.file_bytes - kPageBytes)));
  if (digest != this->digest()) return damaged("the file", "its digest does not match");
  return {};
}

std::optional<LayerInode> Layer::inode(uint32_t number) const {
  if (number >= header_.inode_count) return std::nullopt;
  return load<LayerInode>(begin_ + header_.inodes_at + uint64_t{number} * sizeof(LayerInode));
}

std::string_view Layer::config() const {
  return string(header_.config_at, header_.config_bytes).value_or("");
}

std::optional<std::string_view> Layer::string(uint64_t at, uint64_t bytes) const {
  if (!is_inside(at, bytes, header_.string_bytes)) return std::nullopt;
  return std::string_view(reinterpret_cast<const char*>(begin_) + header_.strings_at + at, bytes);
}

std::optional<Layer::Child> Layer::child(const LayerInode& directory, uint64_t index) const {
  if (index >= directory.size || !is_inside(directory.at, directory.size, header_.entry_count))
    return std::nullopt;
  const auto entry =
      load<LayerEntry>(begin_ + header_.entries_at + (directory.at + index) * sizeof(LayerEntry));
  const auto name = string(entry.name_at, entry.name_bytes);
  if (!name || name->empty() || name->size() > 255 || entry.inode >= header_.inode_count) return std::nullopt;
  if (name->find('/') != name->npos || name->find('\0') != name->npos || *name == "." || *name == "..")
    return std::nullopt;
  return Child{*name, entry.inode};
}

std::optional<uint32_t> Layer::find(const LayerInode& directory, std::string_view name) const {
  uint64_t low = 0, high = directory.size;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    const auto there = child(directory, middle);
    if (!there) return std::nullopt;
    if (there->name == name) return there->inode;
    if (there->name < name) low = middle + 1;
    else high = middle;
  }
  return std::nullopt;
}

std::optional<std::span<const std::byte>> Layer::content(const LayerInode& file) const {
  if (file.size == 0) return std::span<const std::byte>();
  if (file.at % kPageBytes != 0 || !is_inside(file.at, file.size, header_.file_bytes)) return std::nullopt;
  return std::span(begin_ + file.at, file.size);
}

std::optional<std::string_view> Layer::target(const LayerInode& link) const {
  return string(link.at, link.size);
}

std::vector<std::pair<std::string_view, std::string_view>> Layer::attributes(const LayerInode& of) const {
  std::vector<std::pair<std::string_view, std::string_view>> all;
  auto left = string(of.attributes_at, of.attribute_bytes).value_or("");
  constexpr size_t kHead = sizeof(uint16_t) + sizeof(uint32_t);
  while (left.size() >= kHead) {
    const auto* const bytes = reinterpret_cast<const std::byte*>(left.data());
    const uint64_t name_bytes = load<uint16_t>(bytes), value_bytes = load<uint32_t>(bytes + sizeof(uint16_t));
    left.remove_prefix(kHead);
    if (name_bytes + value_bytes > left.size()) break;
    all.emplace_back(left.substr(0, name_bytes), left.substr(name_bytes, value_bytes));
    left.remove_prefix(name_bytes + value_bytes);
  }
  return all;
}

}  // namespace membrane::linux
