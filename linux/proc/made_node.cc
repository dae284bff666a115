#include "linux/proc/made_node.h"

#include <dirent.h>
#include <fcntl.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace membrane::linux {
namespace {

constexpr size_t kMostWriteBytes = 4096;

timespec first_made() {
  static const timespec time = [] {
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now;
  }();
  return time;
}

uint8_t entry_type(uint32_t type) { return static_cast<uint8_t>(type >> 12); }

// An open MadeText: the text as it was when it was last read from the start.
class TextFile final : public File {
 public:
  explicit TextFile(std::shared_ptr<MadeText> text) : text_(std::move(text)), node_(text_) {}
  [[nodiscard]] const NodeRef& node() const override { return node_; }
  [[nodiscard]] std::string description() const override { return "/proc"; }

  Try<size_t> read(Caller& caller, Buffer& to) override {
    MEMBRANE_ASSIGN(const size_t count, read_at(caller, to, offset_));
    offset_ += count;
    return count;
  }
  Try<size_t> read_at(Caller&, Buffer& to, uint64_t offset) override {
    if (offset == 0 || !is_read_) {
      MEMBRANE_ASSIGN(kept_, text_->text());
      is_read_ = true;
    }
    if (offset >= kept_.size()) return 0;
    const std::string_view rest = std::string_view(kept_).substr(offset, to.size());
    return to.put(std::as_bytes(std::span(rest)));
  }
  Try<size_t> write(Caller&, Buffer& from) override {
    std::string text(std::min(from.size(), kMostWriteBytes), '\0');
    MEMBRANE_ASSIGN(const size_t count, from.take(std::as_writable_bytes(std::span(text))));
    text.resize(count);
    MEMBRANE_TRY(text_->write_text(text));
    return count;
  }
  Try<size_t> write_at(Caller& caller, Buffer& from, uint64_t /*offset*/) override {
    return write(caller, from);
  }
  Try<uint64_t> seek(int64_t offset, int whence) override {
    if (whence == SEEK_CUR && __builtin_add_overflow(offset, static_cast<int64_t>(offset_), &offset))
      return err(EINVAL);
    if ((whence != SEEK_SET && whence != SEEK_CUR) || offset < 0) return err(EINVAL);
    offset_ = static_cast<uint64_t>(offset);
    return offset_;
  }
  Done truncate(uint64_t) override { return {}; }

 private:
  const std::shared_ptr<MadeText> text_;
  const NodeRef node_;
  std::string kept_;
  bool is_read_ = false;
  uint64_t offset_ = 0;
};

}  // namespace

MadeNode::MadeNode(uint32_t type, const MadeWith& with) {
  attributes_.device = with.device;
  attributes_.number = with.number;
  attributes_.mode = type | with.permissions;
  attributes_.links = type == S_IFDIR ? 2 : 1;
  attributes_.uid = with.uid;
  attributes_.gid = with.gid;
  attributes_.accessed = attributes_.modified = attributes_.changed = attributes_.created = first_made();
}

uint64_t made_number(uint64_t directory, std::string_view name) {
  uint64_t number = 0xcbf29ce484222325 ^ directory;  // FNV-1a
  for (const char c : name) number = (number ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return (number & 0x7fffffff) | 0x10000;
}

MadeText::MadeText(const MadeWith& with, Text text, Write write)
    : MadeNode(S_IFREG, with), text_(std::move(text)), write_(std::move(write)) {}

Try<std::shared_ptr<File>> MadeText::open(Caller&, int flags) {
  if ((flags & O_ACCMODE) != O_RDONLY && !write_) return err(EACCES);
  return std::make_shared<TextFile>(std::static_pointer_cast<MadeText>(shared_from_this()));
}

MadeLink::MadeLink(const MadeWith& with, Target target, Jump jump)
    : MadeNode(S_IFLNK, with), target_(std::move(target)), jump_(std::move(jump)) {}

MadeDirectory::MadeDirectory(const MadeWith& with, NodeRef above, std::shared_ptr<const Children> children)
    : MadeNode(S_IFDIR, with), above_(std::move(above)), children_(std::move(children)) {}

Try<NodeRef> MadeDirectory::look_up(std::string_view name) {
  Child child;
  const auto found = children_ != nullptr ? children_->find(name) : Children::const_iterator();
  if (children_ != nullptr && found != children_->end()) {
    child = found->second;
  } else {
    MEMBRANE_ASSIGN(child, changing_child(name));
  }
  MadeWith with = {attributes_.device, made_number(attributes_.number, name), child.permissions,
                   child.uid.value_or(attributes_.uid), child.gid.value_or(attributes_.gid)};
  if (with.permissions == 0)
    with.permissions = child.type == S_IFLNK ? 0777 : child.type == S_IFDIR ? 0555 : 0444;
  return child.make(with, shared_from_this());
}

Done MadeDirectory::list(int64_t position, const std::function<bool(const DirectoryEntry&)>& add) {
  std::vector<Listed> names;
  int64_t key = 0;
  if (children_ != nullptr)
    for (const auto& [name, child] : *children_) names.push_back({name, entry_type(child.type), key++});
  MEMBRANE_ASSIGN(const std::vector<Listed> changing, changing_names());
  names.insert(names.end(), changing.begin(), changing.end());
  for (const Listed& listed : names) {
    if (listed.key < position) continue;
    const DirectoryEntry entry = {listed.name, made_number(attributes_.number, listed.name), listed.type,
                                  listed.key + 1};
    if (!add(entry)) break;
  }
  return {};
}

MadeDirectory::Child made_text(MadeText::Text text, MadeText::Write write, uint32_t permissions) {
  if (permissions == 0) permissions = write ? 0644 : 0444;
  return {
      S_IFREG, permissions,
      [text = std::move(text), write = std::move(write)](const MadeWith& with, const NodeRef&) -> NodeRef {
        return std::make_shared<MadeText>(with, text, write);
      }};
}

MadeDirectory::Child made_link(MadeLink::Target target, MadeLink::Jump jump) {
  return {
      S_IFLNK, 0777,
      [target = std::move(target), jump = std::move(jump)](const MadeWith& with, const NodeRef&) -> NodeRef {
        return std::make_shared<MadeLink>(with, target, jump);
      }};
}

MadeDirectory::Child made_directory(std::shared_ptr<const MadeDirectory::Children> children,
                                    uint32_t permissions) {
  return {S_IFDIR, permissions,
          [children = std::move(children)](const MadeWith& with, const NodeRef& above) -> NodeRef {
            return std::make_shared<MadeDirectory>(with, above, children);
          }};
}

int number_of_name(std::string_view name) {
  if (name.empty() || name.size() > 9 || (name[0] == '0' && name.size() > 1)) return -1;
  int number = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  return error == std::errc() && end == name.data() + name.size() && name[0] != '-' ? number : -1;
}

}  // namespace membrane::linux
