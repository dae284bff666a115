#include "wasi/files/file_tree.h"

#include <algorithm>
#include <limits>

#include "wasi/files/image.h"

namespace membrane::wasi {

FileType Node::type() const {
  if (std::holds_alternative<Directory>(is)) return FileType::kDirectory;
  if (std::holds_alternative<Content>(is)) return FileType::kRegularFile;
  if (std::holds_alternative<Symlink>(is)) return FileType::kSymbolicLink;
  if (std::holds_alternative<Device>(is)) return FileType::kCharacterDevice;
  return FileType::kUnknown;  // only the host knows
}

uint64_t Node::size() const {
  if (const auto* content = std::get_if<Content>(&is)) return content->size();
  if (const auto* symlink = std::get_if<Symlink>(&is)) return symlink->target.size();
  return 0;
}

FileTree::FileTree(std::shared_ptr<const Image> image, FileQuota quota)
    : image_(std::move(image)), owner_(new_owner()), quota_(quota) {
  const FileTree& below = image_->tree();
  nodes_ = below.nodes_;
  next_ = below.next_;
}

std::unique_ptr<FileTree> FileTree::fork() const {
  std::unique_ptr<FileTree> fork(new FileTree);
  fork->image_ = image_;
  fork->nodes_ = nodes_;
  fork->owner_ = new_owner();
  fork->next_ = next_;
  fork->quota_ = quota_;
  fork->bytes_used_ = bytes_used_;
  fork->files_used_ = files_used_;
  fork->mounts_ = mounts_;
  owner_ = new_owner();  // shared nodes belong to neither side
  return fork;
}

// -- lookup ----------------------------------------------------------------------------

const Directory* FileTree::directory(Inode inode) const {
  const Node* node = find(inode);
  return node == nullptr ? nullptr : std::get_if<Directory>(&node->is);
}

Inode FileTree::child(Inode inode, std::string_view name) const {
  const Directory* in = directory(inode);
  if (in == nullptr) return 0;
  const auto found = in->entries.find(name);
  return found == in->entries.end() ? 0 : found->second;
}

FileStat FileTree::stat(Inode inode) const {
  FileStat stat{.device = kDevice, .inode = inode};
  if (const Node* node = find(inode)) {
    stat.type = node->type();
    stat.links = node->links;
    stat.size = node->size();
    stat.accessed_ns = node->accessed_ns;
    stat.modified_ns = node->modified_ns;
    stat.changed_ns = node->changed_ns;
  }
  return stat;
}

bool FileTree::is_below(Inode inode, Inode above) const {
  for (const Directory* at = directory(inode); at != nullptr; at = directory(inode)) {
    if (inode == above) return true;
    if (inode == kRoot) return false;
    inode = at->parent;
  }
  return false;
}

// Whether this is /dev, which holds only devices. It keeps its name for ever, since a directory that is not empty
// cannot be removed.
bool FileTree::is_of_devices(Inode inode) const { return inode == child(kRoot, "dev"); }

// A directory that was removed while it was open stays empty.
bool FileTree::can_have_names(Inode inode) const {
  const Node* node = find(inode);
  return node != nullptr && node->links > 0;
}

size_t FileTree::read(Inode inode, uint64_t offset, std::span<uint8_t> to) const {
  const Node* node = find(inode);
  const auto* content = node == nullptr ? nullptr : std::get_if<Content>(&node->is);
  return content == nullptr ? 0 : content->read(offset, to);
}

// -- the quota --------------------------------------------------------------------------

Done FileTree::charge(Node& node, uint64_t bytes) {
  const uint64_t more = bytes - std::min(bytes, node.charged_bytes);
  if (more > 0 && (more > quota_.bytes - std::min(bytes_used_, quota_.bytes) || !has_room(more)))
    return fail(Errno::kNospc);
  bytes_used_ = bytes_used_ - node.charged_bytes + bytes;
  node.charged_bytes = bytes;
  return {};
}

Done FileTree::add_name() {
  if (files_used_ >= quota_.files) return fail(Errno::kDquot);
  if (!has_room(kNameBytes)) return fail(Errno::kNospc);
  ++files_used_;
  return {};
}

// -- names ------------------------------------------------------------------------------

Directory* FileTree::directory_to_write(Inode inode) {
  Node* node = directory(inode) == nullptr ? nullptr : to_write(inode);
  return node == nullptr ? nullptr : &std::get<Directory>(node->is);
}

void FileTree::touch_directory(Inode inode, uint64_t now_ns) {
  Node* node = to_write(inode);
  node->modified_ns = node->changed_ns = now_ns;
  node->is_written = true;
}

Inode FileTree::insert(Node node) {
  const Inode inode = next_++;
  nodes_.insert(inode, std::move(node), owner_);
  return inode;
}

Answer<Inode> FileTree::make(Inode directory, std::string_view name, Node node, uint64_t now_ns) {
  if (name.size() > kMaxNameBytes) return fail(Errno::kNametoolong);
  if (!can_have_names(directory)) return fail(Errno::kNoent);
  if (this->directory(directory) == nullptr) return fail(Errno::kNotdir);
  if (child(directory, name) != 0) return fail(Errno::kExist);
  if (is_of_devices(directory)) return fail(Errno::kAcces);
  if (next_ >= NodeTable<Node>::kMost) return fail(Errno::kNospc);
  if (auto added = add_name(); !added) return fail(added.error());
  if (auto charged = charge(node, node.size()); !charged) {
    --files_used_;
    return fail(charged.error());
  }
  node.accessed_ns = node.modified_ns = node.changed_ns = now_ns;
  node.is_written = node.is_counted = true;
  const Inode inode = insert(std::move(node));
  directory_to_write(directory)->entries.emplace(name, inode);
  touch_directory(directory, now_ns);
  return inode;
}

Answer<Inode> FileTree::make_file(Inode directory, std::string_view name, uint64_t now_ns) {
  return make(directory, name, Node{.is = Content()}, now_ns);
}
Answer<Inode> FileTree::make_directory(Inode directory, std::string_view name, uint64_t now_ns) {
  return make(directory, name, Node{.is = Directory{{}, directory}}, now_ns);
}
Done FileTree::make_symlink(Inode directory, std::string_view name, std::string_view target,
                            uint64_t now_ns) {
  if (target.empty()) return fail(Errno::kNoent);
  if (target.size() > kMaxPathBytes) return fail(Errno::kNametoolong);
  const auto made = make(directory, name, Node{.is = Symlink{std::string(target)}}, now_ns);
  return made ? Done() : fail(made.error());
}

Done FileTree::link(Inode file, Inode directory, std::string_view name, uint64_t now_ns) {
  if (name.size() > kMaxNameBytes) return fail(Errno::kNametoolong);
  if (!can_have_names(directory)) return fail(Errno::kNoent);
  const Node* node = find(file);
  if (node == nullptr || node->links == 0) return fail(Errno::kNoent);
  if (node->type() != FileType::kRegularFile && node->type() != FileType::kSymbolicLink)
    return fail(Errno::kPerm);
  if (child(directory, name) != 0) return fail(Errno::kExist);
  if (is_of_devices(directory)) return fail(Errno::kAcces);
  if (auto added = add_name(); !added) return added;
  Node* written = to_write(file);
  ++written->links;
  written->changed_ns = now_ns;
  directory_to_write(directory)->entries.emplace(name, file);
  touch_directory(directory, now_ns);
  return {};
}

// Removes one name. Names of the image cost nothing and give nothing back.
void FileTree::drop_link(Inode inode, uint64_t now_ns) {
  Node* node = to_write(inode);
  if (node->is_counted || node->links > 1) --files_used_;
  --node->links;
  node->changed_ns = now_ns;
}

Done FileTree::unlink(Inode directory, std::string_view name, uint64_t now_ns) {
  const Inode inode = child(directory, name);
  if (inode == 0) return fail(Errno::kNoent);
  switch (find(inode)->type()) {
    case FileType::kDirectory: return fail(Errno::kIsdir);
    case FileType::kRegularFile:
    case FileType::kSymbolicLink: break;
    default: return fail(Errno::kPerm);  // devices and mounts do not belong to the program
  }
  const auto entry = directory_to_write(directory);
  entry->entries.erase(entry->entries.find(name));
  touch_directory(directory, now_ns);
  drop_link(inode, now_ns);
  return {};
}

Done FileTree::remove_directory(Inode directory, std::string_view name, uint64_t now_ns) {
  const Inode inode = child(directory, name);
  if (inode == 0) return fail(Errno::kNoent);
  if (std::holds_alternative<Mount>(find(inode)->is)) return fail(Errno::kBusy);
  const Directory* removed = this->directory(inode);
  if (removed == nullptr) return fail(Errno::kNotdir);
  if (!removed->entries.empty()) return fail(Errno::kNotempty);
  const auto entry = directory_to_write(directory);
  entry->entries.erase(entry->entries.find(name));
  touch_directory(directory, now_ns);
  drop_link(inode, now_ns);
  return {};
}

Done FileTree::rename(Inode from, std::string_view old_name, Inode to, std::string_view new_name,
                      uint64_t now_ns) {
  if (new_name.size() > kMaxNameBytes) return fail(Errno::kNametoolong);
  if (!can_have_names(from) || !can_have_names(to)) return fail(Errno::kNoent);
  const Inode moved = child(from, old_name);
  if (moved == 0) return fail(Errno::kNoent);
  const Node* node = find(moved);
  if (std::holds_alternative<Mount>(node->is) || std::holds_alternative<Device>(node->is) ||
      is_of_devices(moved))
    return fail(Errno::kBusy);
  if (is_of_devices(to) && from != to) return fail(Errno::kAcces);
  const bool is_directory = node->type() == FileType::kDirectory;
  if (is_directory && is_below(to, moved)) return fail(Errno::kInval);
  const Inode replaced = child(to, new_name);
  if (replaced == moved) return {};  // two names of the same file: nothing to do
  if (replaced != 0 && is_below(from, replaced)) return fail(Errno::kNotempty);
  if (replaced != 0) {
    if (is_directory && directory(replaced) == nullptr) return fail(Errno::kNotdir);
    if (!is_directory && directory(replaced) != nullptr) return fail(Errno::kIsdir);
    const Done gone = is_directory ? remove_directory(to, new_name, now_ns) : unlink(to, new_name, now_ns);
    if (!gone) return gone;
  }
  Directory* source = directory_to_write(from);
  source->entries.erase(source->entries.find(old_name));
  directory_to_write(to)->entries.emplace(new_name, moved);
  if (Directory* directory = directory_to_write(moved)) directory->parent = to;
  to_write(moved)->changed_ns = now_ns;
  touch_directory(from, now_ns);
  touch_directory(to, now_ns);
  return {};
}

void FileTree::release(Inode inode) {
  const Node* node = find(inode);
  if (node == nullptr || node->links > 0) return;
  bytes_used_ -= node->charged_bytes;
  nodes_.erase(inode, owner_);
}

// -- bytes ------------------------------------------------------------------------------

Done FileTree::write(Inode inode, uint64_t offset, std::span<const uint8_t> bytes, uint64_t now_ns) {
  const Node* found = find(inode);
  if (found == nullptr || found->type() != FileType::kRegularFile) return fail(Errno::kBadf);
  if (bytes.empty()) return {};
  if (offset > std::numeric_limits<uint64_t>::max() / 2) return fail(Errno::kFbig);
  Node* node = to_write(inode);
  if (auto charged = charge(*node, std::max(node->size(), offset + bytes.size())); !charged) return charged;
  std::get<Content>(node->is).write(offset, bytes, owner_);
  node->modified_ns = node->changed_ns = now_ns;
  node->is_written = true;
  return {};
}

Done FileTree::resize(Inode inode, uint64_t size, uint64_t now_ns) {
  const Node* found = find(inode);
  if (found == nullptr || found->type() != FileType::kRegularFile) return fail(Errno::kBadf);
  Node* node = to_write(inode);
  if (auto charged = charge(*node, size); !charged) return charged;
  std::get<Content>(node->is).resize(size, owner_);
  node->modified_ns = node->changed_ns = now_ns;
  node->is_written = true;
  return {};
}

void FileTree::set_times(Inode inode, uint64_t accessed_ns, uint64_t modified_ns, uint64_t now_ns) {
  if (Node* node = to_write(inode)) {
    node->accessed_ns = accessed_ns;
    node->modified_ns = modified_ns;
    node->changed_ns = now_ns;
  }
}

// -- mounts -------------------------------------------------------------------------------

Done FileTree::mount(const std::vector<std::string>& components, std::string guest) {
  if (components.empty()) {
    has_root_mount_ = true;
    return {};
  }
  Inode at = kRoot;
  for (const std::string& name : components) {
    if (directory(at) == nullptr) return fail(Errno::kNotdir);
    Inode next = child(at, name);
    if (next == 0) {
      next = insert(Node{.is = Directory{{}, at}});
      directory_to_write(at)->entries.emplace(name, next);
    }
    at = next;
  }
  const Directory* below = directory(at);
  if (below == nullptr) return fail(Errno::kExist);
  if (!below->entries.empty()) return fail(Errno::kNotempty);
  const Inode parent = below->parent;
  to_write(at)->is = Mount{std::move(guest), parent};
  mounts_.push_back(at);
  return {};
}

bool FileTree::is_of_image(Inode inode) const { return image_ != nullptr && inode < image_->tree().next_; }

void FileTree::unmount_all() {
  for (const Inode inode : mounts_) {
    Node* node = to_write(inode);
    node->is = Directory{{}, std::get<Mount>(node->is).parent};
  }
  mounts_.clear();
  has_root_mount_ = false;
}

// -- traversal ----------------------------------------------------------------------------------------

void FileTree::visit_names(const std::function<void(const std::string& path, Inode inode)>& visit) const {
  struct Level {
    const Directory* in;
    decltype(Directory::entries)::const_iterator next;
    size_t path_bytes;  // length of the directory's own path
  };
  visit("/", kRoot);
  const Directory* const root = directory(kRoot);
  std::vector<Level> levels = {{root, root->entries.begin(), 0}};
  std::string path;
  while (!levels.empty()) {
    Level& level = levels.back();
    path.resize(level.path_bytes);
    if (level.next == level.in->entries.end()) {
      levels.pop_back();
      continue;
    }
    const auto& [name, inode] = *level.next++;
    path.append("/").append(name);
    visit(path, inode);
    if (const Directory* const below = directory(inode); below != nullptr)
      levels.push_back({below, below->entries.begin(), path.size()});
  }
}

std::vector<FileTree::Named> FileTree::all_names() const {
  std::vector<Named> names;
  visit_names([&](const std::string& path, Inode inode) { names.push_back({path, inode}); });
  std::ranges::sort(names, {}, &Named::path);
  return names;
}

std::string FileTree::broken_invariant(const std::vector<Inode>& open) const {
  std::map<Inode, uint64_t> names;
  uint64_t bytes = 0, files = 0;
  for (const auto& [path, inode] : all_names()) {
    const Node* node = find(inode);
    if (node == nullptr) return path + " leads nowhere";
    if (++names[inode] > 1) {
      if (node->type() == FileType::kDirectory) return path + " is a second name of a directory";
      ++files;
      continue;
    }
    bytes += node->charged_bytes;
    files += node->is_counted ? 1 : 0;
    const Directory* in = directory(inode);
    if (in == nullptr) continue;
    for (const auto& [name, below] : in->entries)
      if (const Directory* child = directory(below); child != nullptr && child->parent != inode)
        return path + "/" + name + " has another parent";
  }
  for (const auto& [inode, count] : names)
    if (find(inode)->links != count) return "the file " + std::to_string(inode) + " counts its names wrongly";
  std::map<Inode, bool> nameless;
  for (const Inode inode : open)
    if (inode != 0 && !names.contains(inode) && nameless.emplace(inode, true).second) {
      if (find(inode) == nullptr) return "an open file is missing";
      bytes += find(inode)->charged_bytes;
    }
  if (bytes != bytes_used_) return "the quota's bytes are counted wrongly";
  if (files != files_used_) return "the quota's files are counted wrongly";
  return {};
}

}  // namespace membrane::wasi
