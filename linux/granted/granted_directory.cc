#include "linux/granted/granted_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <list>
#include <map>

#include "linux/granted/messages.h"

namespace membrane::linux {
namespace {

constexpr size_t kMostOpen = 200;  // fewer than the broker allows
constexpr uint64_t kMostFileBytes = 1ull << 40;

uint64_t hash_of(std::string_view path) {
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const char c : path) hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211u;
  return hash | 1;
}

timespec time_of(int64_t ns) {
  constexpr int64_t kSecond = 1'000'000'000;
  const int64_t part = ((ns % kSecond) + kSecond) % kSecond;
  return {.tv_sec = (ns - part) / kSecond, .tv_nsec = part};
}
int64_t ns_of(const timespec& time) {
  constexpr int64_t kSecond = 1'000'000'000, kMost = INT64_MAX / kSecond - 1;
  return std::clamp<int64_t>(time.tv_sec, -kMost, kMost) * kSecond + time.tv_nsec;
}

bool is_unchanged(const Attributes& before, const Attributes& now) {
  const auto is_same = [](const timespec& a, const timespec& b) {
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
  };
  return before.number == now.number && before.size == now.size && is_same(before.modified, now.modified) &&
         is_same(before.changed, now.changed);
}

struct Asked {
  GrantedAnswer answer;
  std::string bytes;
};

// The broker, seen from this side.
class Client {
 public:
  Client(HostFile socket, const GrantedOptions& granted) : options(granted), socket_(std::move(socket)) {}

  Try<Asked> ask(GrantedRequest request, std::string_view path = {}, std::string_view other = {},
                 std::string_view bytes = {}) {
    if (path.size() > GrantedRequest::kMostPathBytes || other.size() > GrantedRequest::kMostPathBytes)
      return err(ENAMETOOLONG);
    request.path_bytes = static_cast<uint32_t>(path.size());
    request.other_bytes = static_cast<uint32_t>(other.size());
    request.bytes = static_cast<uint32_t>(bytes.size());
    std::string message(reinterpret_cast<const char*>(&request), sizeof request);
    message.append(path).append(other).append(bytes);
    if (!send_whole(message)) return err(EIO);
    return receive();
  }

  const GrantedOptions options;

 private:
  bool send_whole(std::string_view message) const {
    ssize_t sent = -1;
    do sent = ::send(socket_.number(), message.data(), message.size(), MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == static_cast<ssize_t>(message.size());
  }
  Try<Asked> receive() {
    std::string message(sizeof(GrantedAnswer) + GrantedRequest::kMostBytes + 1, '\0');
    ssize_t got = -1;
    do got = ::recv(socket_.number(), message.data(), message.size(), 0);
    while (got < 0 && errno == EINTR);
    Asked asked;
    if (got < static_cast<ssize_t>(sizeof asked.answer)) return err(EIO);
    std::memcpy(&asked.answer, message.data(), sizeof asked.answer);
    asked.bytes = message.substr(sizeof asked.answer, static_cast<size_t>(got) - sizeof asked.answer);
    if (asked.answer.bytes != asked.bytes.size() || asked.answer.size > kMostFileBytes) return err(EIO);
    if (asked.answer.error != 0) return err(std::clamp(asked.answer.error, 1, 133));
    return asked;
  }

  const HostFile socket_;
};

// The bytes of a file that guests map, charged while anyone has them.
class FileCopy {
 public:
  FileCopy(HostFile file, uint64_t bytes, std::shared_ptr<uint64_t> account)
      : file_(std::move(file)), bytes_(bytes), account_(std::move(account)) {
    *account_ += bytes_;
  }
  ~FileCopy() { *account_ -= bytes_; }
  FileCopy(const FileCopy&) = delete;
  FileCopy& operator=(const FileCopy&) = delete;
  [[nodiscard]] int number() const { return file_.number(); }
  [[nodiscard]] uint64_t bytes() const { return bytes_; }

 private:
  const HostFile file_;
  const uint64_t bytes_;
  const std::shared_ptr<uint64_t> account_;
};

class GrantedNode;

// All nodes of a granted directory, one for each path, so that locks and mounts apply to the file for every process that
// opens it. When the host has put another file at a path, it gets another node.
struct Granted {
  explicit Granted(HostFile socket, const GrantedOptions& options) : client(std::move(socket), options) {}
  Client client;
  std::map<std::string, std::weak_ptr<GrantedNode>, std::less<>> nodes;
  std::list<GrantedNode*> open;  // open at the broker, the last used one first
};

class GrantedNode final : public Node {
 public:
  GrantedNode(std::shared_ptr<Granted> all, std::string path, std::shared_ptr<GrantedNode> above,
              uint32_t type)
      : all_(std::move(all)), path_(std::move(path)), above_(std::move(above)), type_(type) {}
  ~GrantedNode() override {
    close();
    if (!is_gone_) all_->nodes.erase(path_);
  }
  GrantedNode(const GrantedNode&) = delete;
  GrantedNode& operator=(const GrantedNode&) = delete;

  // `number`: the broker's number of the file that is at `path` now; 0: unknown.
  static std::shared_ptr<GrantedNode> make(const std::shared_ptr<Granted>& all, std::string path,
                                           std::shared_ptr<GrantedNode> above, uint32_t type,
                                           uint64_t number) {
    std::shared_ptr<GrantedNode> there;
    if (const auto found = all->nodes.find(path); found != all->nodes.end()) there = found->second.lock();
    if (there != nullptr && there->is_of(type, number)) return there;
    auto made = std::make_shared<GrantedNode>(all, path, std::move(above), type);
    made->number_ = number;
    if (there != nullptr) there->is_gone_ = true;
    all->nodes[std::move(path)] = made;
    return made;
  }

  Attributes attributes() override {
    Attributes facts = {.device = all_->client.options.device, .number = hash_of(path_)};
    facts.mode = type_ | (type_ == S_IFLNK ? 0777u : 0u);
    const auto asked =
        file_ != 0 ? all_->client.ask({.act = GrantedAct::kStatus, .file = file_}, is_gone_ ? "" : path_)
                   : all_->client.ask({.act = GrantedAct::kStatus}, path_);
    if (!asked || is_gone_) facts.links = 0;
    if (!asked) return facts;
    const GrantedAnswer& answer = asked->answer;
    if (!is_gone_) mode_ = answer.mode & 0777;
    if (type_ != S_IFLNK) facts.mode |= mode_;
    if (answer.number != 0) facts.number = answer.number;
    if (!is_gone_) facts.links = static_cast<uint32_t>(std::clamp<uint64_t>(answer.links, 1, UINT32_MAX));
    facts.size = type_ == S_IFDIR ? 4096 : answer.size;
    facts.blocks = (facts.size + 511) / 512;
    facts.accessed = time_of(answer.accessed_ns);
    facts.modified = facts.created = time_of(answer.modified_ns);
    facts.changed = time_of(answer.changed_ns);
    return facts;
  }
  FileSystemRoom room() override {
    const auto asked = all_->client.ask({.act = GrantedAct::kRoom}, path_);
    GrantedRoom shown;
    if (!asked || asked->bytes.size() != sizeof shown) return {};
    std::memcpy(&shown, asked->bytes.data(), sizeof shown);
    return {shown.most_bytes, std::min(shown.free_bytes, shown.most_bytes), shown.most_files,
            std::min(shown.free_files, shown.most_files)};
  }
  Done change(const AttributeChange& change) override {
    if (change.uid.value_or(0) != 0 || change.gid.value_or(0) != 0) return err(EPERM);
    if (!all_->client.options.is_writable) return err(EROFS);
    if (change.mode) {
      if (is_gone_) return err(ENOENT);
      MEMBRANE_TRY(set_mode(*change.mode));
    }
    if (!change.accessed && !change.modified) return {};
    GrantedRequest request = {.act = GrantedAct::kSetTimes};
    if (change.accessed) request.accessed_ns = ns_of(*change.accessed);
    if (change.modified) request.modified_ns = ns_of(*change.modified);
    return done(all_->client.ask(request, path_));
  }

  // -- directories
  Try<NodeRef> look_up(std::string_view name) override {
    if (type_ != S_IFDIR) return err(ENOTDIR);
    MEMBRANE_ASSIGN(const std::string path, below(name));
    MEMBRANE_ASSIGN(const Asked asked, all_->client.ask({.act = GrantedAct::kStatus}, path));
    return make(all_, path, self(), type_of(asked.answer.flags), asked.answer.number);
  }
  Try<NodeRef> create(std::string_view name, const NewNode& what) override;
  Done link(std::string_view name, const NodeRef& target) override;
  Done unlink(std::string_view name) override;
  Done remove_directory(std::string_view name) override;
  Done rename(std::string_view name, Node& to, std::string_view new_name, unsigned flags) override;
  Done list(int64_t position, const std::function<bool(const DirectoryEntry&)>& add) override;
  NodeRef parent() override { return above_ != nullptr ? NodeRef(above_) : NodeRef(shared_from_this()); }

  // -- files
  Try<size_t> read(uint64_t offset, std::span<std::byte> to) override;
  Try<size_t> write(uint64_t offset, std::span<const std::byte> from) override;
  Done resize(uint64_t size) override {
    if (type_ != S_IFREG) return err(type_ == S_IFDIR ? EISDIR : EINVAL);
    MEMBRANE_TRY(open_for(true));
    copy_.reset();
    return done(all_->client.ask({.act = GrantedAct::kResize, .file = file_, .offset = size}));
  }
  Done allocate(int mode, uint64_t offset, uint64_t length) override;
  Try<uint64_t> seek_data(uint64_t offset, bool hole) override {
    const uint64_t size = attributes().size;
    if (offset >= size) return err(ENXIO);
    return hole ? size : offset;
  }
  Try<Backing> mapping(uint64_t offset, uint64_t length, bool is_shared) override;
  [[nodiscard]] bool shares_writes() const override { return false; }
  Try<std::string> target() override {
    if (type_ != S_IFLNK) return err(EINVAL);
    MEMBRANE_ASSIGN(Asked asked, all_->client.ask({.act = GrantedAct::kTarget}, path_));
    if (asked.bytes.empty() || asked.bytes.contains('\0')) return err(EIO);
    return std::move(asked.bytes);
  }

 private:
  static uint32_t type_of(uint32_t flags) {
    return (flags & GrantedAnswer::kIsLink) != 0        ? S_IFLNK
           : (flags & GrantedAnswer::kIsDirectory) != 0 ? S_IFDIR
                                                        : S_IFREG;
  }
  static Done done(const Try<Asked>& asked) {
    if (!asked) return err(asked.error());
    return {};
  }
  std::shared_ptr<GrantedNode> self() { return std::static_pointer_cast<GrantedNode>(shared_from_this()); }
  Try<std::string> below(std::string_view name) const {
    if (is_gone_) return err(ENOENT);
    if (path_.size() + name.size() + 1 > GrantedRequest::kMostPathBytes) return err(ENAMETOOLONG);
    return path_.empty() ? std::string(name) : path_ + "/" + std::string(name);
  }
  // Whether it is the file that the broker has just described.
  bool is_of(uint32_t type, uint64_t number) {
    if (number_ == 0) number_ = number;
    return type_ == type && (number == 0 || number_ == number);
  }
  Done may_write() const {
    if (type_ != S_IFDIR) return err(ENOTDIR);
    return all_->client.options.is_writable ? Done() : err(EROFS);
  }
  Done set_mode(uint32_t mode) {
    return done(all_->client.ask({.act = GrantedAct::kSetMode, .mode = mode & 0777}, path_));
  }
  // Adjusts the mode of a new file, which the broker created by its own umask: a user who may not read it may
  // not run it.
  void narrow_mode(uint32_t mode) {
    const uint32_t made = attributes().mode & 0777, most = made | (made & 0444) >> 2;
    if ((mode & most) != made) static_cast<void>(set_mode(mode & most));
  }
  // Opens it with the broker, unless it is open.
  Done open_for(bool writing);
  void keep_open(uint64_t file, bool writing);
  void close() {
    if (file_ == 0) return;
    static_cast<void>(all_->client.ask({.act = GrantedAct::kClose, .file = std::exchange(file_, 0)}));
    all_->open.remove(this);
  }
  // The name is about to be removed; open files keep the file. Errors: ENFILE when there is no room to keep
  // it open.
  Done leave_name(const std::string& path) {
    const auto found = all_->nodes.find(path);
    if (found == all_->nodes.end()) return {};
    if (auto node = found->second.lock()) {
      if (node->type_ == S_IFREG && node.use_count() > 2)
        if (const Done kept = node->open_for(false); !kept && kept.error() == EDQUOT) return err(ENFILE);
      leaving_ = node;
    }
    return {};
  }
  void left_name(const std::string& path, bool is_left) {
    const auto node = std::exchange(leaving_, nullptr);
    if (!is_left || node == nullptr) return;
    all_->nodes.erase(path);
    node->is_gone_ = true;
  }

  const std::shared_ptr<Granted> all_;
  std::string path_;
  std::shared_ptr<GrantedNode> above_;
  const uint32_t type_;
  uint64_t number_ = 0;   // the broker's; 0: unknown
  uint32_t mode_ = 0;     // as last seen
  bool is_gone_ = false;  // its name is
  uint64_t file_ = 0;     // the broker's number; 0: not open
  bool is_for_writing_ = false;
  std::shared_ptr<const FileCopy> copy_;  // for the next mapping
  Attributes copied_;                     // the file's attributes when it was copied
  std::shared_ptr<GrantedNode> leaving_;
  struct Entry {
    std::string name;
    uint64_t number = 0;
    uint8_t type = 0;
  };
  std::vector<Entry> listed_;  // while listing
};

Done GrantedNode::open_for(bool writing) {
  if (type_ != S_IFREG) return err(type_ == S_IFDIR ? EISDIR : EINVAL);
  if (writing && !all_->client.options.is_writable) return err(EROFS);
  if (file_ != 0 && (is_for_writing_ || !writing)) {
    if (all_->open.front() != this) {
      all_->open.remove(this);
      all_->open.push_front(this);
    }
    return {};
  }
  if (is_gone_) return err(file_ != 0 ? EBADF : ESTALE);
  close();
  const uint32_t flags = writing ? uint32_t{GrantedRequest::kForWriting} : 0;
  MEMBRANE_ASSIGN(const Asked asked, all_->client.ask({.act = GrantedAct::kOpen, .flags = flags}, path_));
  if (asked.answer.file == 0) return err(EIO);
  keep_open(asked.answer.file, writing);
  return {};
}

// Replaces the least recently used one; but a file without a name could not be reopened.
void GrantedNode::keep_open(uint64_t file, bool writing) {
  for (auto last = all_->open.end(); all_->open.size() >= kMostOpen && last != all_->open.begin();) {
    GrantedNode& oldest = **--last;
    if (oldest.is_gone_) continue;
    last = std::next(last);
    oldest.close();
  }
  file_ = file;
  is_for_writing_ = writing;
  all_->open.push_front(this);
}

Try<size_t> GrantedNode::read(uint64_t offset, std::span<std::byte> to) {
  MEMBRANE_TRY(open_for(false));
  size_t done = 0;
  while (done < to.size()) {
    const size_t wanted = std::min(to.size() - done, GrantedRequest::kMostBytes);
    const auto asked = all_->client.ask({.act = GrantedAct::kRead,
                                         .count = static_cast<uint32_t>(wanted),
                                         .file = file_,
                                         .offset = offset + done});
    if (!asked && done > 0) break;
    if (!asked) return err(asked.error());
    if (asked->bytes.size() > wanted) return err(EIO);
    std::memcpy(to.data() + done, asked->bytes.data(), asked->bytes.size());
    done += asked->bytes.size();
    if (asked->bytes.size() < wanted) break;
  }
  return done;
}

Try<size_t> GrantedNode::write(uint64_t offset, std::span<const std::byte> from) {
  MEMBRANE_TRY(open_for(true));
  copy_.reset();
  size_t done = 0;
  while (done < from.size()) {
    const size_t wanted = std::min(from.size() - done, GrantedRequest::kMostBytes);
    const auto asked = all_->client.ask({.act = GrantedAct::kWrite, .file = file_, .offset = offset + done},
                                        {}, {}, {reinterpret_cast<const char*>(from.data()) + done, wanted});
    if (!asked && done > 0) break;
    if (!asked) return err(asked.error());
    done += wanted;
  }
  return done;
}

Done GrantedNode::allocate(int mode, uint64_t offset, uint64_t length) {
  if (mode != 0) return err(EOPNOTSUPP);
  if (offset + length < offset) return err(EFBIG);
  return attributes().size >= offset + length ? Done() : resize(offset + length);
}

// A copy that guests may only read: their own writes go to private pages.
Try<Backing> GrantedNode::mapping(uint64_t offset, uint64_t /*length*/, bool is_shared) {
  if (type_ != S_IFREG) return err(ENODEV);
  const Attributes now = attributes();
  if (copy_ == nullptr || !is_unchanged(copied_, now)) {
    copy_.reset();
    const uint64_t size = now.size;
    const GrantedOptions& options = all_->client.options;
    if (size > options.most_mapped_bytes - std::min(*options.copied_bytes, options.most_mapped_bytes))
      return err(ENOMEM);
    HostFile file = make_memory("membrane-granted", size);
    if (!file) return err(ENOMEM);
    auto copy = std::make_shared<const FileCopy>(std::move(file), size, options.copied_bytes);
    std::vector<std::byte> piece(GrantedRequest::kMostBytes);
    for (uint64_t at = 0; at < size;) {
      MEMBRANE_ASSIGN(const size_t got, read(at, piece));
      if (got == 0) break;
      if (pwrite(copy->number(), piece.data(), got, static_cast<off_t>(at)) != static_cast<ssize_t>(got))
        return err(ENOMEM);
      at += got;
    }
    copy_ = std::move(copy);
    copied_ = now;
  }
  Backing backing = {.fd = copy_->number(), .offset = offset, .is_shared = is_shared, .held = copy_};
  const uint64_t end = (copy_->bytes() + 4095) / 4096 * 4096;
  backing.length = end > offset ? end - offset : 0;
  return backing;
}

Try<NodeRef> GrantedNode::create(std::string_view name, const NewNode& what) {
  MEMBRANE_TRY(may_write());
  MEMBRANE_ASSIGN(const std::string path, below(name));
  const uint32_t type = what.mode & S_IFMT, mode = what.mode & 0777;
  if (type == S_IFDIR) MEMBRANE_TRY(all_->client.ask({.act = GrantedAct::kMakeDirectory}, path));
  else if (type == S_IFLNK) MEMBRANE_TRY(all_->client.ask({.act = GrantedAct::kMakeLink}, path, what.target));
  else if (type != S_IFREG) return err(EPERM);
  if (type != S_IFREG) {
    auto made = make(all_, path, self(), type, 0);
    if (type == S_IFDIR) made->narrow_mode(mode);
    return made;
  }
  constexpr uint32_t kFlags =
      GrantedRequest::kForWriting | GrantedRequest::kCreate | GrantedRequest::kExclusive;
  MEMBRANE_ASSIGN(const Asked asked, all_->client.ask({.act = GrantedAct::kOpen, .flags = kFlags}, path));
  if (asked.answer.file == 0) return err(EIO);
  auto made = make(all_, path, self(), S_IFREG, asked.answer.number);
  // The creator of a file may write to it, whatever its permissions; a later open() may fail.
  made->close();
  made->keep_open(asked.answer.file, true);
  made->narrow_mode(mode);
  return made;
}

Done GrantedNode::link(std::string_view name, const NodeRef& target) {
  MEMBRANE_TRY(may_write());
  auto* const of = dynamic_cast<GrantedNode*>(target.get());
  if (of == nullptr || of->all_ != all_) return err(EXDEV);
  if (of->is_gone_) return err(ENOENT);
  MEMBRANE_ASSIGN(const std::string path, below(name));
  return done(all_->client.ask({.act = GrantedAct::kMakeHardLink}, of->path_, path));
}

Done GrantedNode::unlink(std::string_view name) {
  MEMBRANE_TRY(may_write());
  MEMBRANE_ASSIGN(const std::string path, below(name));
  MEMBRANE_TRY(leave_name(path));
  const Done removed = done(all_->client.ask({.act = GrantedAct::kUnlink}, path));
  left_name(path, removed.has_value());
  return removed;
}

Done GrantedNode::remove_directory(std::string_view name) {
  MEMBRANE_TRY(may_write());
  MEMBRANE_ASSIGN(const std::string path, below(name));
  MEMBRANE_TRY(leave_name(path));
  const Done removed = done(all_->client.ask({.act = GrantedAct::kRemoveDirectory}, path));
  left_name(path, removed.has_value());
  return removed;
}

Done GrantedNode::rename(std::string_view name, Node& to, std::string_view new_name, unsigned flags) {
  MEMBRANE_TRY(may_write());
  auto* const other = dynamic_cast<GrantedNode*>(&to);
  if (other == nullptr || other->all_ != all_) return err(EXDEV);
  if ((flags & ~RENAME_NOREPLACE) != 0) return err(EINVAL);
  MEMBRANE_ASSIGN(const std::string from, below(name));
  MEMBRANE_ASSIGN(const std::string onto, other->below(new_name));
  if (from == onto) return {};
  if ((flags & RENAME_NOREPLACE) != 0 && all_->client.ask({.act = GrantedAct::kStatus}, onto))
    return err(EEXIST);
  MEMBRANE_TRY(leave_name(onto));
  const Done renamed = done(all_->client.ask({.act = GrantedAct::kRename}, from, onto));
  left_name(onto, renamed.has_value());
  if (!renamed) return renamed;
  // Everything that was reached by the old name.
  const std::string prefix = from + "/";
  std::vector<std::shared_ptr<GrantedNode>> moved;
  for (const auto& [path, weak] : all_->nodes)
    if (path == from || path.starts_with(prefix))
      if (auto node = weak.lock()) moved.push_back(std::move(node));
  for (const auto& node : moved) {
    all_->nodes.erase(node->path_);
    if (node->path_ == from) node->above_ = other->self();
    node->path_ = onto + node->path_.substr(from.size());
    all_->nodes[node->path_] = node;
  }
  return {};
}

Done GrantedNode::list(int64_t position, const std::function<bool(const DirectoryEntry&)>& add) {
  if (type_ != S_IFDIR) return err(ENOTDIR);
  if (position == 0) {
    std::vector<Entry> all;
    for (;;) {
      MEMBRANE_ASSIGN(const Asked asked,
                      all_->client.ask({.act = GrantedAct::kList, .offset = all.size()}, path_));
      const size_t before = all.size();
      for (std::string_view rest = asked.bytes; rest.size() >= sizeof(GrantedEntry);) {
        GrantedEntry entry;
        std::memcpy(&entry, rest.data(), sizeof entry);
        rest.remove_prefix(sizeof entry);
        const std::string_view name = rest.substr(0, entry.name_bytes);
        rest.remove_prefix(name.size());
        if (name.empty() || name.size() != entry.name_bytes || name.contains('/') || name.contains('\0') ||
            name == "." || name == "..")
          return err(EIO);
        const uint32_t type = type_of(entry.flags);
        all.push_back({std::string(name), entry.number, static_cast<uint8_t>(type >> 12)});
      }
      if (all.size() >= asked.answer.entries || all.size() == before) break;
    }
    listed_ = std::move(all);
  }
  for (auto at = static_cast<size_t>(std::max<int64_t>(position, 0)); at < listed_.size(); ++at) {
    const Entry& each = listed_[at];
    const uint64_t number =
        each.number != 0 ? each.number : hash_of(path_.empty() ? each.name : path_ + "/" + each.name);
    if (!add({.name = each.name, .number = number, .type = each.type, .next = static_cast<int64_t>(at) + 1}))
      break;
  }
  return {};
}

}  // namespace

NodeRef make_granted_directory(HostFile socket, const GrantedOptions& options) {
  auto all = std::make_shared<Granted>(std::move(socket), options);
  return GrantedNode::make(all, "", nullptr, S_IFDIR, 0);
}

}  // namespace membrane::linux
