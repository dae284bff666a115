#include "wasi/frozen.h"

#include <algorithm>
#include <concepts>
#include <map>

#include "base/number_reader.h"
#include "base/utf8.h"

namespace membrane::wasi {

namespace {

constexpr uint32_t kTag = 0x5341574D;  // "MWAS"

class Writer {
 public:
  template <std::integral T>
  void number(T value) {
    const auto* const from = reinterpret_cast<const uint8_t*>(&value);
    out.insert(out.end(), from, from + sizeof value);
  }
  void text(std::string_view text) {
    number<uint64_t>(text.size());
    out.insert(out.end(), text.begin(), text.end());
  }
  template <typename List, typename Each>
  void list(const List& values, Each each) {
    number<uint64_t>(values.size());
    for (const auto& value : values) each(value);
  }

  std::vector<uint8_t> out;
};

class Reader : public NumberReader {
 public:
  using NumberReader::NumberReader;

  std::string text() {
    const auto from = take(number<uint64_t>());
    return {from.begin(), from.end()};
  }
  // Grows as its elements are read: the count alone must not cause an allocation.
  template <typename Each>
  void list(Each each) {
    const auto count = number<uint64_t>();
    for (uint64_t i = 0; i < count && ok(); ++i) each();
  }
  void check(bool holds) {
    if (!holds) fail();
  }
};

enum class NodeKind : uint8_t { kDirectory, kFile, kSymlink, kDevice };
enum class OpenKind : uint8_t { kStandard, kDirectory, kFile, kDevice, kHostFile };

bool is_name(const std::string& name) {
  return !name.empty() && name.size() <= kMaxNameBytes && name != "." && name != ".." &&
         name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos &&
         is_utf8(name);
}

bool is_host_path(const std::string& path) {
  const auto components = components_of(path);
  return components && !components->empty();
}

// -- descriptors -----------------------------------------------------------------------------

void write_open(Writer& out, const Standard& standard) {
  out.number(static_cast<uint8_t>(OpenKind::kStandard));
  out.number(static_cast<uint8_t>(standard));
}
void write_open(Writer& out, const OpenDirectory& directory) {
  out.number(static_cast<uint8_t>(OpenKind::kDirectory));
  out.number(directory.place.inode);
  out.text(directory.place.host);
  out.number<uint8_t>(directory.listing != nullptr);
  out.list(directory.listing == nullptr ? Listing() : *directory.listing, [&](const ListedName& listed) {
    out.text(listed.name);
    out.number(listed.inode);
    out.number(static_cast<uint8_t>(listed.type));
  });
}
void write_open(Writer& out, const OpenFile& file) {
  out.number(static_cast<uint8_t>(OpenKind::kFile));
  out.number(file.inode);
}
void write_open(Writer& out, const OpenDevice& device) {
  out.number(static_cast<uint8_t>(OpenKind::kDevice));
  out.number(device.inode);
  out.text(std::string_view(device.answer).substr(device.answer_at));
}
void write_open(Writer& out, const OpenHostFile& file) {
  out.number(static_cast<uint8_t>(OpenKind::kHostFile));
  out.text(file.path);
  out.number<uint8_t>(file.writes);
  out.number(file.bytes_in);
  out.number(file.bytes_out);
}

void write_descriptors(Writer& out, const Descriptors& descriptors) {
  out.list(descriptors.all(), [&](const auto& entry) {
    const Descriptor& descriptor = entry.second;
    out.number(entry.first);
    out.number(descriptor.rights);
    out.number(descriptor.inheriting);
    out.number(descriptor.flags);
    out.number(descriptor.offset);
    out.number<uint8_t>(descriptor.is_preopened);
    std::visit([&](const auto& open) { write_open(out, open); }, descriptor.is);
  });
}

OpenDirectory read_directory(Reader& in, const FileTree& files) {
  OpenDirectory directory{{in.number<uint64_t>(), {}}, nullptr};
  directory.place.host = in.text();
  in.check(directory.place.is_host()
               ? is_host_path(directory.place.host)
               : directory.place.host.empty() && files.directory(directory.place.inode) != nullptr);
  const bool has_listing = in.flag();
  auto listing = std::make_shared<Listing>();
  in.list([&] {
    ListedName& listed = listing->emplace_back();
    listed.name = in.text();
    listed.inode = in.number<uint64_t>();
    const auto type = in.number<uint8_t>();
    in.check(listed.name.size() <= kMaxNameBytes && type <= static_cast<uint8_t>(FileType::kSymbolicLink));
    listed.type = static_cast<FileType>(type);
  });
  in.check(has_listing || listing->empty());
  if (!has_listing) return directory;
  listing->shrink_to_fit();
  directory.listing_bytes = bytes_of(*listing);
  directory.listing = std::move(listing);
  return directory;
}

OpenDevice read_device(Reader& in, const FileTree& files) {
  OpenDevice device{.inode = in.number<uint64_t>(), .answer = in.text()};
  const Node* node = files.find(device.inode);
  const auto* kind = node == nullptr ? nullptr : std::get_if<Device>(&node->is);
  in.check(kind != nullptr);
  if (kind != nullptr) device.device = *kind;
  return device;
}

void read_open(Reader& in, Descriptor& descriptor, const FileTree& files) {
  switch (static_cast<OpenKind>(in.number<uint8_t>())) {
    case OpenKind::kStandard: {
      const auto standard = in.number<uint8_t>();
      in.check(standard <= static_cast<uint8_t>(Standard::kErr));
      descriptor.is = static_cast<Standard>(standard);
      return;
    }
    case OpenKind::kDirectory: descriptor.is = read_directory(in, files); return;
    case OpenKind::kFile: {
      const auto inode = in.number<uint64_t>();
      const Node* node = files.find(inode);
      in.check(node != nullptr && node->type() == FileType::kRegularFile);
      descriptor.is = OpenFile{inode};
      return;
    }
    case OpenKind::kDevice: descriptor.is = read_device(in, files); return;
    case OpenKind::kHostFile: {
      OpenHostFile file{.path = in.text(), .writes = in.flag()};
      file.bytes_in = in.number<uint64_t>();
      file.bytes_out = in.number<uint64_t>();
      in.check(is_host_path(file.path));
      descriptor.is = std::move(file);
      return;
    }
  }
  in.fail();
}

void read_descriptors(Reader& in, Descriptors& descriptors, const FileTree& files) {
  in.list([&] {
    const auto number = in.number<uint32_t>();
    Descriptor descriptor;
    descriptor.rights = in.number<uint64_t>();
    descriptor.inheriting = in.number<uint64_t>();
    descriptor.flags = in.number<uint16_t>();
    descriptor.offset = in.number<uint64_t>();
    descriptor.is_preopened = in.flag();
    in.check(number < kMaxDescriptors && descriptors.find(number) == nullptr &&
             ((descriptor.rights | descriptor.inheriting) & ~kAllRights) == 0 &&
             descriptor.flags <= fdflag::kAll && descriptor.offset <= INT64_MAX);
    read_open(in, descriptor, files);
    in.check(!descriptor.is_preopened || std::holds_alternative<OpenDirectory>(descriptor.is));
    if (in.ok()) descriptors.put(number, std::move(descriptor));
  });
}

// -- everything except the files ---------------------------------------------------------------

void write_rest(Writer& out, const State& state) {
  const auto text = [&](const std::string& one) { out.text(one); };
  out.list(state.arguments, text);
  out.list(state.environment, text);
  out.text(std::string_view(state.stdin_text).substr(state.stdin_at));
  out.number<uint8_t>(state.stdin_waits);
  out.text(state.out.waiting());
  out.text(state.err.waiting());
  out.number<uint8_t>(state.exit_code.has_value());
  out.number(state.exit_code.value_or(0));
  out.number(state.clock.passed_ns());
  // After thawing, the clock follows the world's again, and the monotonic one continues where it was.
  out.number(state.real_start_ns -
             std::min(state.skipped_ns, std::max<uint64_t>(state.real_start_ns, 1) - 1));
  out.number(state.real_monotonic_ns);
  out.number(state.real_now_ns);
  for (const uint8_t byte : state.random.key()) out.number(byte);
  out.number(state.random.position());
}

void read_texts(Reader& in, std::vector<std::string>& texts) {
  in.list([&] { in.check(texts.emplace_back(in.text()).find('\0') == std::string::npos); });
}

void read_rest(Reader& in, State& state) {
  read_texts(in, state.arguments);
  read_texts(in, state.environment);
  state.stdin_text = in.text();
  state.stdin_waits = in.flag();
  for (TextStream* stream : {&state.out, &state.err}) {
    const std::string waiting = in.text();
    in.check(waiting.size() <= 3);
    stream->go_on_from(waiting);
  }
  const bool has_exited = in.flag();
  const auto code = in.number<uint32_t>();
  if (has_exited) state.exit_code = code;
  state.clock.go_to(in.number<uint64_t>());
  state.real_start_ns = in.number<uint64_t>();
  state.real_monotonic_ns = in.number<uint64_t>();
  state.real_now_ns = in.number<uint64_t>();
  RandomStream::Key key{};
  for (uint8_t& byte : key) byte = in.number<uint8_t>();
  state.random = RandomStream(key, in.number<uint64_t>());
}

std::unexpected<Error> damaged() {
  return membrane::fail(ErrorCode::kInvalidInput, "The frozen WASI state is damaged.",
                        "thaw the bytes as they were frozen");
}

}  // namespace

// -- files ------------------------------------------------------------------------------------

class FrozenTree {
 public:
  static void write(Writer& out, const FileTree& files) {
    const FileTree& image = files.image()->tree();
    out.number(files.next_);
    std::vector<Inode> gone;
    image.nodes_.for_each_unlike(files.nodes_, [&](Inode inode, const Node&) {
      if (files.find(inode) == nullptr) gone.push_back(inode);
    });
    out.list(gone, [&](Inode inode) { out.number(inode); });
    std::vector<std::pair<Inode, const Node*>> own;
    files.nodes_.for_each_unlike(image.nodes_,
                                 [&](Inode inode, const Node& node) { own.emplace_back(inode, &node); });
    out.list(own, [&](const auto& entry) { write_node(out, entry.first, *entry.second); });
  }

  // Inconsistencies are left to check().
  static void read(Reader& in, FileTree& files) {
    const Inode first_own = files.next_;
    files.next_ = in.number<uint64_t>();
    in.check(files.next_ >= first_own && files.next_ < NodeTable<Node>::kMost);
    in.list([&] { files.nodes_.erase(in.number<uint64_t>(), files.owner_); });
    uint64_t charged_bytes = 0;
    in.list([&] { read_node(in, files, charged_bytes); });
  }

  // Whether the state is a tree that operations could have produced. Counts what it takes of the quota.
  static bool check(FileTree& files, const std::vector<Inode>& open) {
    std::map<Inode, uint64_t> names = {{FileTree::kRoot, 1}};
    uint64_t nodes = 0;
    bool is_fine = files.directory(FileTree::kRoot) != nullptr;
    const auto look = [&](Inode inode, const Node& node) {
      ++nodes;
      const auto* directory = std::get_if<Directory>(&node.is);
      if (directory == nullptr) return;
      for (const auto& [name, child] : directory->entries) {
        const Node* below = files.find(child);
        const Directory* child_directory = files.directory(child);
        is_fine = is_fine && below != nullptr && ++names[child] >= 1;
        // A directory has one name, in its parent: so there is no cycle reachable from the root.
        is_fine = is_fine &&
                  (child_directory == nullptr || (names[child] == 1 && child_directory->parent == inode));
      }
    };
    files.nodes_.for_each_unlike(NodeTable<Node>(), look);
    return is_fine && count(files, open, names, nodes);
  }

 private:
  static bool count(FileTree& files, const std::vector<Inode>& open, const std::map<Inode, uint64_t>& names,
                    uint64_t nodes) {
    uint64_t reached = 0;
    for (const auto& [inode, number] : names) {
      const Node& node = *files.find(inode);
      if (node.links != number) return false;
      if (inode == FileTree::kRoot && files.directory(inode)->parent != inode) return false;
      files.bytes_used_ += node.charged_bytes;
      files.files_used_ += number - 1 + (node.is_counted ? 1 : 0);
      ++reached;
    }
    std::map<Inode, bool> nameless;
    for (const Inode inode : open) {
      const Node* node = files.find(inode);
      if (node == nullptr || names.contains(inode) || !nameless.emplace(inode, true).second) continue;
      const Directory* directory = files.directory(inode);
      if (node->links != 0 || (directory != nullptr && !directory->entries.empty())) return false;
      files.bytes_used_ += node->charged_bytes;
      ++reached;
    }
    // Each node is reached: by names from the root, or because it is open.
    return reached == nodes && from_root(files) + nameless.size() == nodes;
  }

  static uint64_t from_root(const FileTree& files) {
    std::map<Inode, bool> seen;
    files.visit_names([&](const std::string&, Inode inode) { seen.emplace(inode, true); });
    return seen.size();
  }

  static void write_node(Writer& out, Inode inode, const Node& node) {
    for (const uint64_t number : {inode, node.links, node.accessed_ns, node.modified_ns, node.changed_ns})
      out.number(number);
    out.number<uint8_t>(node.is_counted);
    out.number<uint8_t>(node.is_written);
    if (const auto* directory = std::get_if<Directory>(&node.is)) {
      write_directory(out, *directory);
    } else if (const auto* mount = std::get_if<Mount>(&node.is)) {
      write_directory(out, {{}, mount->parent});  // the thawing side decides what is granted
    } else if (const auto* content = std::get_if<Content>(&node.is)) {
      write_content(out, *content);
    } else if (const auto* symlink = std::get_if<Symlink>(&node.is)) {
      out.number(static_cast<uint8_t>(NodeKind::kSymlink));
      out.text(symlink->target);
    } else if (const auto* device = std::get_if<Device>(&node.is)) {
      out.number(static_cast<uint8_t>(NodeKind::kDevice));
      out.number(static_cast<uint8_t>(*device));
    }
  }

  static void write_directory(Writer& out, const Directory& directory) {
    out.number(static_cast<uint8_t>(NodeKind::kDirectory));
    out.number(directory.parent);
    out.list(directory.entries, [&](const auto& entry) {
      out.text(entry.first);
      out.number(entry.second);
    });
  }

  static void write_content(Writer& out, const Content& content) {
    out.number(static_cast<uint8_t>(NodeKind::kFile));
    out.number(content.size());
    out.number<uint64_t>(content.base().size());
    uint64_t count = 0;
    content.for_each_piece([&](uint64_t, std::span<const uint8_t>) { ++count; });
    out.number(count);
    content.for_each_piece([&](uint64_t index, std::span<const uint8_t> bytes) {
      out.number(index);
      out.text({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    });
  }

  // `charged_bytes`: of the nodes so far. A state beyond the quota is refused before it takes memory.
  static void read_node(Reader& in, FileTree& files, uint64_t& charged_bytes) {
    const auto inode = in.number<uint64_t>();
    Node node;
    for (uint64_t* number : {&node.links, &node.accessed_ns, &node.modified_ns, &node.changed_ns})
      *number = in.number<uint64_t>();
    node.is_counted = in.flag();
    node.is_written = in.flag();
    in.check(inode != 0 && inode < files.next_);
    switch (static_cast<NodeKind>(in.number<uint8_t>())) {
      case NodeKind::kDirectory: node.is = read_directory_node(in); break;
      case NodeKind::kFile: node.is = read_content(in, files, inode, node.is_written); break;
      case NodeKind::kSymlink: node.is = Symlink{in.text()}; break;
      case NodeKind::kDevice: node.is = Device{in.number<uint8_t>()}; break;
      default: in.fail();
    }
    if (const auto* symlink = std::get_if<Symlink>(&node.is))
      in.check(!symlink->target.empty() && symlink->target.size() <= kMaxPathBytes);
    if (const auto* device = std::get_if<Device>(&node.is)) in.check(*device <= Device::kMembrane);
    node.charged_bytes = std::holds_alternative<Content>(node.is)   ? (node.is_written ? node.size() : 0)
                         : std::holds_alternative<Symlink>(node.is) ? (node.is_counted ? node.size() : 0)
                                                                    : 0;
    charged_bytes += node.charged_bytes;
    in.check(charged_bytes <= files.quota().bytes);
    if (in.ok()) files.nodes_.insert(inode, std::move(node), files.owner_);
  }

  static Directory read_directory_node(Reader& in) {
    Directory directory{{}, in.number<uint64_t>()};
    in.list([&] {
      std::string name = in.text();
      in.check(is_name(name));
      const auto inode = in.number<uint64_t>();
      in.check(directory.entries.emplace(std::move(name), inode).second);
    });
    return directory;
  }

  static Content read_content(Reader& in, const FileTree& files, Inode inode, bool is_written) {
    const Node* below = files.image()->tree().find(inode);
    const auto* base = below == nullptr ? nullptr : std::get_if<Content>(&below->is);
    Content content = base == nullptr ? Content() : *base;
    const auto size = in.number<uint64_t>();
    const auto base_bytes = in.number<uint64_t>();
    in.check(base_bytes <= content.base().size() && base_bytes <= size && size <= files.quota().bytes);
    // A file that was not written must match the image.
    if (!is_written && base != nullptr) in.check(size == base->size() && base_bytes == size);
    if (!is_written && base == nullptr) in.fail();
    if (!in.ok()) return {};
    content.resize(base_bytes, files.owner_);
    content.resize(size, files.owner_);
    in.list([&] {
      const auto index = in.number<uint64_t>();
      const auto bytes = in.take(in.number<uint64_t>());
      in.check(is_written && index <= size / Content::kPieceBytes && bytes.size() <= Content::kPieceBytes &&
               index * Content::kPieceBytes + bytes.size() <= size);
      if (in.ok()) content.put_piece(index, bytes, files.owner_);
    });
    return content;
  }
};

// -- the whole state ---------------------------------------------------------------------------

Result<std::vector<uint8_t>> write_frozen(const State& state) {
  MEMBRANE_ASSIGN(const std::string digest, state.files->image()->digest());
  Writer out;
  out.number(kTag);
  out.number(kFrozenVersion);
  out.text(digest);
  write_rest(out, state);
  FrozenTree::write(out, *state.files);
  write_descriptors(out, state.descriptors);
  return std::move(out.out);
}

Result<std::unique_ptr<State>> read_frozen(std::span<const uint8_t> bytes, std::shared_ptr<const Image> image,
                                           FileQuota quota) {
  Reader in(bytes);
  if (in.number<uint32_t>() != kTag) return damaged();
  if (const auto version = in.number<uint32_t>(); version != kFrozenVersion)
    return membrane::fail(ErrorCode::kUnsupported,
                          "The frozen WASI state has version " + std::to_string(version) + ".",
                          "thaw it with the version of Membrane that froze it");
  MEMBRANE_ASSIGN(const std::string digest, image->digest());
  if (in.text() != digest)
    return membrane::fail(ErrorCode::kInvalidInput, "The frozen WASI state is of another image.",
                          "thaw it over the image that it was frozen with");
  auto state = std::make_unique<State>(std::make_unique<FileTree>(std::move(image), quota),
                                       RandomStream(RandomStream::Key{}));
  read_rest(in, *state);
  FrozenTree::read(in, *state->files);
  if (!in.ok()) return damaged();
  read_descriptors(in, state->descriptors, *state->files);
  std::vector<Inode> open;
  for (const auto& [number, descriptor] : state->descriptors.all()) open.push_back(descriptor.inode());
  if (!in.ok() || !in.left().empty() || !FrozenTree::check(*state->files, open)) return damaged();
  if (state->files->bytes_used() > quota.bytes || state->files->files_used() > quota.files)
    return membrane::fail(ErrorCode::kExhausted,
                          "The frozen WASI state has more files than the quota allows.",
                          "thaw it with the quota that it was frozen with");
  return state;
}

}  // namespace membrane::wasi
