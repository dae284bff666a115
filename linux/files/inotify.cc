#include "linux/files/inotify.h"

#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <climits>
#include <cstring>

#include "linux/files/anonymous_node.h"

namespace membrane::linux {
namespace {

constexpr uint32_t kMaskCreate = 0x10000000;  // IN_MASK_CREATE
constexpr uint32_t kAsked = IN_ALL_EVENTS | IN_ONLYDIR | IN_DONT_FOLLOW | IN_EXCL_UNLINK | IN_MASK_ADD |
                            kMaskCreate | IN_ONESHOT | IN_ISDIR;

}  // namespace

// -- telling

void Watches::announce(const Node& node, uint32_t mask, std::string_view name, uint32_t cookie) {
  if (!notices_.empty() && !name.empty()) notify(node, mask);
  const auto found = by_node_.find(&node);
  if (found == by_node_.end()) return;
  // A copy, since notifying may end a watch.
  for (InotifyFile* file : std::vector(found->second)) file->tell(node, mask, name, cookie);
}

void Watches::announce_both(const Node* directory, std::string_view name, const Node& node, uint32_t mask) {
  if (directory != nullptr) announce(*directory, mask, name);
  announce(node, mask);
}

void InotifyFile::tell(const Node& node, uint32_t mask, std::string_view name, uint32_t cookie) {
  const auto number = numbers_.find(&node);
  if (number == numbers_.end()) return;
  const int watch = number->second;
  const uint32_t wanted = watches_[watch].mask;
  const bool is_wanted = (mask & wanted & IN_ALL_EVENTS) != 0 || (mask & IN_UNMOUNT) != 0;
  if (is_wanted) queue({.watch = watch, .mask = mask, .cookie = cookie, .name = std::string(name)});
  const bool is_last = (mask & (IN_DELETE_SELF | IN_UNMOUNT)) != 0;
  if (!is_last && !(is_wanted && (wanted & IN_ONESHOT) != 0)) return;
  queue({.watch = watch, .mask = IN_IGNORED, .cookie = 0, .name = {}});
  forget(watch);
}

void InotifyFile::queue(Event event) {
  if (!events_.empty() && events_.back() == event) return;
  if (events_.size() >= kMostEvents) {
    if (events_.back().mask == IN_Q_OVERFLOW) return;
    event = {.watch = -1, .mask = IN_Q_OVERFLOW, .cookie = 0, .name = {}};
  }
  events_.push_back(std::move(event));
  changed_.wake();
}

// For events in a directory. The callback only sends a signal.
void Watches::notify(const Node& node, uint32_t mask) {
  std::erase_if(notices_, [&](const Notice& each) {
    const FileRef directory = each.directory.lock();
    if (directory == nullptr) return true;
    if (directory->node().get() != &node || (each.mask & mask) == 0) return false;
    each.tell();
    return each.is_once;
  });
}

Done Watches::set_notice(const FileRef& directory, int process, uint32_t mask, bool is_once,
                         std::function<void()> tell) {
  std::erase_if(notices_, [&](const Notice& each) {
    const FileRef file = each.directory.lock();
    return file == nullptr || (file == directory && each.process == process);
  });
  if (mask == 0) return {};
  if (notices_.size() >= kMostNotices) return err(ENOSPC);
  notices_.push_back({directory, process, mask, is_once, std::move(tell)});
  return {};
}

// -- watching

InotifyFile::InotifyFile(std::shared_ptr<Watches> all, NodeRef node)
    : all_(std::move(all)), node_(std::move(node)) {
  flags = O_RDONLY;
  ++all_->files_;
}

InotifyFile::~InotifyFile() {
  while (!watches_.empty()) forget(watches_.begin()->first);
  --all_->files_;
}

void InotifyFile::forget(int watch) {
  const auto found = watches_.find(watch);
  const Node* node = found->second.node.get();
  const auto files = all_->by_node_.find(node);
  std::erase(files->second, this);
  if (files->second.empty()) all_->by_node_.erase(files);
  numbers_.erase(node);
  watches_.erase(found);
  --all_->watches_;
}

Try<int> InotifyFile::add_watch(const NodeRef& node, uint32_t mask) {
  if ((mask & ~kAsked) != 0 || (mask & IN_ALL_EVENTS) == 0) return err(EINVAL);
  if ((mask & IN_MASK_ADD) != 0 && (mask & kMaskCreate) != 0) return err(EINVAL);
  const uint32_t kept = mask & (IN_ALL_EVENTS | IN_ONESHOT);
  if (const auto found = numbers_.find(node.get()); found != numbers_.end()) {
    if ((mask & kMaskCreate) != 0) return err(EEXIST);
    Watch& watch = watches_[found->second];
    watch.mask = (mask & IN_MASK_ADD) != 0 ? watch.mask | kept : kept;
    return found->second;
  }
  if (all_->watches_ >= Watches::kMostWatches || last_ == INT_MAX) return err(ENOSPC);
  const int number = ++last_;
  watches_[number] = {.node = node, .mask = kept};
  numbers_[node.get()] = number;
  all_->by_node_[node.get()].push_back(this);
  ++all_->watches_;
  return number;
}

Done InotifyFile::remove_watch(int watch) {
  if (!watches_.contains(watch)) return err(EINVAL);
  queue({.watch = watch, .mask = IN_IGNORED, .cookie = 0, .name = {}});
  forget(watch);
  return {};
}

// -- reading

size_t InotifyFile::Event::name_bytes() const {
  constexpr size_t kUnit = sizeof(inotify_event);
  return name.empty() ? 0 : (name.size() + 1 + kUnit - 1) / kUnit * kUnit;
}

Try<size_t> InotifyFile::read(Caller&, Buffer& to) {
  if (events_.empty()) return err(EAGAIN);
  size_t done = 0;
  while (!events_.empty()) {
    const Event& event = events_.front();
    const size_t size = sizeof(inotify_event) + event.name_bytes();
    if (to.size() < size) return done > 0 ? Try<size_t>(done) : err(EINVAL);
    const inotify_event head = {.wd = event.watch,
                                .mask = event.mask,
                                .cookie = event.cookie,
                                .len = static_cast<uint32_t>(event.name_bytes())};
    std::vector<std::byte> record(size);
    std::memcpy(record.data(), &head, sizeof head);
    std::memcpy(record.data() + sizeof head, event.name.data(), event.name.size());
    const auto put = to.put(record);
    if (!put || *put < size) return done > 0 ? Try<size_t>(done) : err(EFAULT);
    done += size;
    events_.pop_front();
  }
  return done;
}

Try<int64_t> InotifyFile::ioctl(Caller& caller, uint64_t request, uint64_t argument) {
  if (request != FIONREAD) return err(ENOTTY);
  size_t bytes = 0;
  for (const Event& event : events_) bytes += sizeof(inotify_event) + event.name_bytes();
  MEMBRANE_TRY(caller.put(argument, static_cast<int>(bytes)));
  return 0;
}

Try<std::shared_ptr<InotifyFile>> make_inotify_file(const std::shared_ptr<Watches>& all, int flags) {
  if ((flags & ~(IN_NONBLOCK | IN_CLOEXEC)) != 0) return err(EINVAL);
  if (all->files_ >= Watches::kMostFiles) return err(EMFILE);
  std::shared_ptr<InotifyFile> file(
      new InotifyFile(all, make_anonymous_node(AnonymousDevice::kOthers, 0600)));
  file->flags |= flags & IN_NONBLOCK;
  return file;
}

}  // namespace membrane::linux
