#include "wasi/image.h"

#include <optional>

#include "base/sha256.h"
#include "base/utf8.h"

namespace membrane::wasi {
namespace {

std::unexpected<Error> refused(const Layer& layer, std::string what) {
  return membrane::fail(ErrorCode::kInvalidArgument, "The image's " + layer.path + " " + std::move(what),
                        "name a file by an absolute path without \"..\"");
}

std::string_view view(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

std::optional<std::vector<std::string>> components_of(std::string_view path) {
  if (!path.starts_with('/') || path.size() > kMaxPathBytes || path.find('\0') != std::string_view::npos ||
      !is_utf8(path))
    return std::nullopt;
  std::vector<std::string> components;
  while (!path.empty()) {
    path.remove_prefix(1);
    const std::string_view component = path.substr(0, path.find('/'));
    path.remove_prefix(component.size());
    if (component.empty() || component == ".") continue;
    if (component == ".." || component.size() > kMaxNameBytes) return std::nullopt;
    components.emplace_back(component);
  }
  return components;
}

Status Image::add(const Layer& layer) {
  auto components = components_of(layer.path);
  if (!components) return refused(layer, "is not a file path.");
  if (components->empty()) return {};  // the root always exists
  if (tree_.next_ >= kMaxFiles) return refused(layer, "is one file too many.");
  const std::string name = components->back();
  components->pop_back();
  Inode at = FileTree::kRoot;
  for (const std::string& component : *components) {
    Inode next = tree_.child(at, component);
    if (next == 0) {
      next = tree_.insert(Node{.is = Directory{{}, at}});
      tree_.directory_to_write(at)->entries.emplace(component, next);
    }
    if (tree_.directory(next) == nullptr)
      return refused(layer, "leads through something that is not a directory.");
    at = next;
  }
  const Inode old = tree_.child(at, name);
  const bool is_directory = layer.kind == Layer::Kind::kDirectory;
  if (old != 0 && is_directory && tree_.directory(old) != nullptr) return {};
  if (old != 0 && (is_directory || tree_.directory(old) != nullptr))
    return refused(layer, "is a directory in one layer and a file in another.");
  Node node{.is = Directory{{}, at}};
  if (layer.kind == Layer::Kind::kFile) node.is = Content(layer.bytes, layer.keep);
  if (layer.kind == Layer::Kind::kSymlink) node.is = Symlink{layer.target};
  node.accessed_ns = node.modified_ns = node.changed_ns = layer.modified_ns;
  tree_.directory_to_write(at)->entries.insert_or_assign(name, tree_.insert(std::move(node)));
  if (old != 0) tree_.nodes_.erase(old, tree_.owner_);
  return {};
}

Result<std::shared_ptr<const Image>> Image::make(const std::vector<Layer>& layers) {
  std::shared_ptr<Image> image(new Image);
  image->tree_.owner_ = new_owner();
  image->tree_.nodes_.insert(FileTree::kRoot, Node{.is = Directory{{}, FileTree::kRoot}},
                             image->tree_.owner_);
  MEMBRANE_TRY(image->add({.path = "/tmp", .kind = Layer::Kind::kDirectory}));
  for (const Layer& layer : layers) MEMBRANE_TRY(image->add(layer));
  MEMBRANE_TRY(image->add_devices());
  image->tree_.owner_ = kNobody;
  return image;
}

Result<std::shared_ptr<const Image>> Image::with(const std::vector<Layer>& layers) const {
  std::shared_ptr<Image> image(new Image);
  image->tree_.nodes_ = tree_.nodes_;
  image->tree_.next_ = tree_.next_;
  image->tree_.owner_ = new_owner();
  for (const Layer& layer : layers) MEMBRANE_TRY(image->add(layer));
  image->tree_.owner_ = kNobody;
  return image;
}

Status Image::add_devices() {
  static constexpr std::pair<std::string_view, Device> kDevices[] = {{"null", Device::kNull},
                                                                     {"zero", Device::kZero},
                                                                     {"random", Device::kRandom},
                                                                     {"urandom", Device::kRandom},
                                                                     {"membrane", Device::kMembrane}};
  for (const auto& [name, device] : kDevices) {
    MEMBRANE_TRY(add({.path = "/dev/" + std::string(name)}));
    const Inode directory = tree_.child(FileTree::kRoot, "dev");
    tree_.to_write(tree_.child(directory, name))->is = device;
  }
  return {};
}

std::shared_ptr<const Image> Image::empty() {
  static const std::shared_ptr<const Image> image = Image::make({}).value();
  return image;
}

void Image::know_digest(std::string digest) const {
  std::call_once(once_, [&] { digest_ = std::move(digest); });
}

Result<std::string> Image::digest() const {
  std::call_once(once_, [this] {
    std::string lines;
    for (const auto& [path, inode] : tree_.all_names()) {
      const Node& node = *tree_.find(inode);
      lines += std::to_string(inode) + " " + std::to_string(static_cast<int>(node.type())) + " " +
               std::to_string(node.modified_ns) + " " + std::to_string(path.size()) + " " + path;
      if (const auto* symlink = std::get_if<Symlink>(&node.is)) lines += " " + symlink->target;
      if (const auto* content = std::get_if<Content>(&node.is)) {
        auto bytes = sha256_hex(view(content->base()));
        if (!bytes) {
          digest_ = bytes;
          return;
        }
        lines += " " + *bytes;
      }
      lines += "\n";
    }
    digest_ = sha256_hex(lines);
  });
  return digest_;
}

}  // namespace membrane::wasi
