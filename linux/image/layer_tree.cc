#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <ranges>

#include "base/private_file.h"
#include "base/text.h"
#include "linux/image/layer_writer.h"

namespace membrane::linux {
namespace {

constexpr int kMostLinks = 40;
constexpr size_t kMostPath = 4096;

bool is_directory(const LayerItem& item) { return (item.mode & S_IFMT) == S_IFDIR; }
bool is_link(const LayerItem& item) { return (item.mode & S_IFMT) == S_IFLNK; }

std::unexpected<Error> wrong(std::string_view path, const char* what) {
  return fail(ErrorCode::kInvalidInput, "\"" + std::string(path.substr(0, 300)) + "\" in the image " + what);
}

// The last is the first to come.
void push_parts(std::vector<std::string>& to, std::string_view path) {
  std::vector<std::string> parts;
  for (const auto part : std::views::split(path, '/')) {
    const std::string_view each(part.begin(), part.end());
    if (!each.empty() && each != ".") parts.emplace_back(each);
  }
  for (auto& part : std::views::reverse(parts)) to.push_back(std::move(part));
}

Status check_path(std::string_view path) {
  if (path.size() >= kMostPath) return wrong(path, "has a path that is too long");
  for (const auto part : std::views::split(path, '/')) {
    const std::string_view each(part.begin(), part.end());
    if (each == "..") return wrong(path, "leads out of it through \"..\"");
    if (each.size() > 255) return wrong(path, "has a name that is too long");
    if (each.find('\0') != each.npos) return wrong(path, "has a zero byte in its name");
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<Spool>> Spool::create(const std::string& directory) {
  std::shared_ptr<Spool> spool(new Spool);
  spool->fd_ = open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (spool->fd_ < 0) {
    std::string name = directory + "/.spool-XXXXXX";
    spool->fd_ = mkostemp(name.data(), O_CLOEXEC);
    if (spool->fd_ < 0) return refused_by_system("write into", directory);
    unlink(name.c_str());
  }
  return spool;
}

Spool::~Spool() {
  if (fd_ >= 0) close(fd_);
}

Status Spool::write(uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (wrote <= 0) return refused_by_system("write", "the contents of an image");
    offset += static_cast<uint64_t>(wrote);
    bytes = bytes.subspan(static_cast<size_t>(wrote));
  }
  return {};
}

Status Spool::extend(uint64_t size) {
  struct stat status = {};
  if (fstat(fd_, &status) != 0) return refused_by_system("read", "the contents of an image");
  if (static_cast<uint64_t>(status.st_size) < size && ftruncate(fd_, static_cast<off_t>(size)) != 0)
    return refused_by_system("write", "the contents of an image");
  return {};
}

uint64_t LayerItem::attribute_bytes() const {
  uint64_t bytes = 0;
  for (const auto& [name, value] : attributes) bytes += name.size() + value.size();
  return bytes;
}

LayerTree::LayerTree(const LayerLimits& limits) : limits_(limits) { nodes_.emplace_back(); }

Status LayerTree::load(const std::shared_ptr<const Layer>& image) {
  // Breadth first, so that a directory precedes its contents; hard links are recognised by their inode.
  if (image->inode_count() > limits_.most_entries)
    return fail(ErrorCode::kTooLong,
                "the image has more than " + std::to_string(limits_.most_entries) + " files");
  nodes_.clear();
  nodes_.resize(image->inode_count());
  std::vector<bool> has_name(image->inode_count());
  uint64_t entries = 0;
  for (uint32_t number = 0; number < image->inode_count(); ++number) {
    const auto inode = image->inode(number);
    if (!inode) return wrong("/", "is damaged");
    LayerItem& item = nodes_[number].item;
    item = {.mode = inode->mode,
            .uid = inode->uid,
            .gid = inode->gid,
            .modified = {inode->modified_s, static_cast<long>(inode->modified_ns)},
            .special = 0};
    for (const auto& [name, value] : image->attributes(*inode)) item.attributes.emplace(name, value);
    MEMBRANE_TRY(count_attributes(item));
    switch (inode->mode & S_IFMT) {
      case S_IFDIR:
        for (uint64_t index = 0; index < inode->size; ++index) {
          const auto child = image->child(*inode, index);
          const auto below = child ? image->inode(child->inode) : std::nullopt;
          if (!below) return wrong("/", "is damaged");
          const bool goes_down = child->inode > number && below->parent == number;
          if (++entries > image->entry_count()) return wrong("/", "is damaged");
          if ((below->mode & S_IFMT) == S_IFDIR && (!goes_down || has_name[child->inode]))
            return wrong(child->name, "is in several directories");
          has_name[child->inode] = true;
          nodes_[number].children.emplace(child->name, child->inode);
        }
        break;
      case S_IFLNK: item.target = image->target(*inode).value_or(""); break;
      case S_IFREG:
        if (!image->content(*inode)) return wrong("/", "is damaged");
        item.holder = image;
        item.fd = image->fd();
        item.at = inode->at;
        item.size = inode->size;
        break;
      default: item.special = inode->at; break;
    }
  }
  return {};
}

Status LayerTree::count_attributes(const LayerItem& item) {
  attribute_bytes_ += item.attribute_bytes();
  if (attribute_bytes_ <= limits_.most_attribute_bytes) return {};
  return fail(ErrorCode::kTooLong,
              "the attributes of the image's files have more than " +
                  count_of(limits_.most_attribute_bytes, "byte") + " together",
              "Remove attributes from them before making the image: setfattr -x NAME FILE.");
}

Result<uint32_t> LayerTree::add(LayerItem item) {
  if (nodes_.size() >= limits_.most_entries)
    return fail(ErrorCode::kTooLong,
                "the image has more than " + std::to_string(limits_.most_entries) + " files");
  nodes_.push_back({std::move(item), {}, generation_});
  return static_cast<uint32_t>(nodes_.size() - 1);
}

std::optional<uint32_t> LayerTree::at(const Spot& spot) const {
  if (spot.name.empty()) return spot.directory;
  const auto& children = nodes_[spot.directory].children;
  const auto found = children.find(spot.name);
  return found == children.end() ? std::nullopt : std::optional(found->second);
}

Result<std::optional<LayerTree::Spot>> LayerTree::look(std::string_view path, LayerTree* maker) const {
  MEMBRANE_TRY(check_path(path));
  std::vector<std::string> left;
  push_parts(left, path);
  std::vector<uint32_t> chain = {0};
  int links = 0;
  while (!left.empty()) {
    std::string part = std::move(left.back());
    left.pop_back();
    if (part == "..") {  // of a link's target
      if (chain.size() > 1) chain.pop_back();
      continue;
    }
    if (left.empty()) return Spot{chain.back(), std::move(part)};
    auto child = at({chain.back(), part});
    if (!child) {
      if (maker == nullptr) return std::nullopt;
      MEMBRANE_ASSIGN(child, maker->add({}));
      maker->nodes_[chain.back()].children.emplace(part, *child);
    }
    const LayerItem& item = nodes_[*child].item;
    if (is_directory(item)) {
      chain.push_back(*child);
      if (maker != nullptr) maker->nodes_[*child].generation = maker->generation_;
    } else if (is_link(item)) {
      if (++links > kMostLinks) return wrong(path, "goes through too many symbolic links");
      if (item.target.starts_with('/')) chain = {0};
      push_parts(left, item.target);
    } else {
      return wrong(path, "is below a file that is not a directory");
    }
  }
  return Spot{chain.back(), ""};
}

Status LayerTree::put(std::string_view path, LayerItem item) {
  MEMBRANE_TRY(count_attributes(item));
  MEMBRANE_ASSIGN(const auto spot, look(path, this));
  const auto there = at(*spot);
  if (there && is_directory(item) && is_directory(nodes_[*there].item)) {
    nodes_[*there].item = std::move(item);
    nodes_[*there].generation = generation_;
    return {};
  }
  if (spot->name.empty()) return wrong(path, "is its root, which is a directory");
  MEMBRANE_ASSIGN(const uint32_t added, add(std::move(item)));
  nodes_[spot->directory].children.insert_or_assign(spot->name, added);
  return {};
}

Status LayerTree::put_link(std::string_view path, std::string_view target) {
  MEMBRANE_ASSIGN(const auto from, look(target, nullptr));
  const auto there = from ? at(*from) : std::nullopt;
  if (!there) return wrong(path, "is a hard link to a missing file");
  if (is_directory(nodes_[*there].item)) return wrong(path, "is a hard link to a directory");
  MEMBRANE_ASSIGN(const auto spot, look(path, this));
  if (!spot || spot->name.empty()) return wrong(path, "is its root, which is a directory");
  nodes_[*there].generation = generation_;
  nodes_[spot->directory].children.insert_or_assign(spot->name, *there);
  return {};
}

Status LayerTree::remove(std::string_view path) {
  MEMBRANE_ASSIGN(const auto spot, look(path, nullptr));
  const auto there = spot ? at(*spot) : std::nullopt;
  if (!there || spot->name.empty()) return {};
  if (nodes_[*there].generation < generation_) nodes_[spot->directory].children.erase(spot->name);
  else if (is_directory(nodes_[*there].item)) empty_lower(*there);
  return {};
}

Status LayerTree::make_opaque(std::string_view path) {
  MEMBRANE_ASSIGN(const auto spot, look(path, nullptr));
  const auto there = spot ? at(*spot) : std::nullopt;
  if (there && is_directory(nodes_[*there].item)) empty_lower(*there);
  return {};
}

void LayerTree::empty_lower(uint32_t directory) {
  std::vector<uint32_t> left = {directory};
  while (!left.empty()) {
    Made& made = nodes_[left.back()];
    left.pop_back();
    std::erase_if(made.children, [&](const auto& child) {
      const Made& below = nodes_[child.second];
      if (below.generation < generation_) return true;
      if (is_directory(below.item)) left.push_back(child.second);
      return false;
    });
  }
}

Status LayerTree::visit_all(const Visit& visit) const {
  std::vector<std::string> first(nodes_.size());
  std::vector<std::pair<std::string, uint32_t>> left = {{"", 0}};
  while (!left.empty()) {
    const auto [path, number] = std::move(left.back());
    left.pop_back();
    const Made& made = nodes_[number];
    MEMBRANE_TRY(visit(path, made.item, first[number]));
    if (!is_directory(made.item)) first[number] = path;
    for (const auto& [name, child] : std::views::reverse(made.children))
      left.emplace_back(path.empty() ? name : path + "/" + name, child);
  }
  return {};
}

const LayerItem* LayerTree::find(std::string_view path) const {
  const auto spot = look(path, nullptr);
  if (!spot || !*spot) return nullptr;
  const auto there = at(**spot);
  return there ? &nodes_[*there].item : nullptr;
}

}  // namespace membrane::linux
