#include "linux/files/epoll.h"

#include <fcntl.h>

#include <algorithm>
#include <set>

#include "linux/files/anonymous_node.h"

namespace membrane::linux {
namespace {

constexpr uint32_t kAlways = EPOLLERR | EPOLLHUP;
constexpr uint32_t kHow = EPOLLET | EPOLLONESHOT | EPOLLEXCLUSIVE | EPOLLWAKEUP;

void erase_one(std::vector<EpollFile*>& of, const EpollFile* file) {
  if (const auto at = std::ranges::find(of, file); at != of.end()) of.erase(at);
}

}  // namespace

class EpollFile::Entry final : public Waiter {
 public:
  Entry(EpollFile& of, Key its_key, const FileRef& its_file) : epoll(of), key(its_key), file(its_file) {
    auto* watched = dynamic_cast<EpollFile*>(its_file.get());
    if (watched == nullptr) return;
    watched->watched_by_.push_back(&epoll);
    epoll.watched_.push_back(watched);
  }
  ~Entry() override {
    leave();
    epoll.unmark(*this);
    const FileRef held = file.lock();
    auto* watched = dynamic_cast<EpollFile*>(held.get());
    if (watched == nullptr) return;
    erase_one(watched->watched_by_, &epoll);
    erase_one(epoll.watched_, watched);
  }
  void on_wake() override { epoll.mark(*this); }

  EpollFile& epoll;
  const Key key;
  const std::weak_ptr<File> file;
  epoll_event event = {};
  bool is_disabled = false;  // by EPOLLONESHOT, until the entry is modified
  bool is_marked = false;
  std::list<Entry*>::iterator at;  // in marked_
};

EpollFile::EpollFile(NodeRef node) : node_(std::move(node)) { flags = O_RDWR; }

EpollFile::~EpollFile() {
  entries_.clear();
  for (EpollFile* above : watched_by_) std::erase(above->watched_, this);
}

void EpollFile::mark(Entry& entry) {
  if (entry.is_marked || entry.is_disabled) return;
  entry.is_marked = true;
  entry.at = marked_.insert(marked_.end(), &entry);
  changed_.wake();
}

void EpollFile::unmark(Entry& entry) {
  if (!entry.is_marked) return;
  entry.is_marked = false;
  marked_.erase(entry.at);
}

void EpollFile::erase(Entry& entry) {
  const Key key = entry.key;
  entries_.erase(key);
}

uint32_t EpollFile::look_at(Entry& entry) {
  const FileRef file = entry.file.lock();
  if (file == nullptr) {
    erase(entry);
    return 0;
  }
  const auto events = static_cast<uint16_t>(file->ready()) & ((entry.event.events & ~kHow) | kAlways);
  if (events == 0) unmark(entry);
  return events;
}

short EpollFile::ready() {
  while (!marked_.empty())
    if (look_at(*marked_.front()) != 0) return POLLIN | POLLRDNORM;
  return 0;
}

size_t EpollFile::collect(std::span<epoll_event> events) {
  size_t count = 0;
  std::vector<Entry*> again;  // level-triggered entries stay marked, after the others
  while (count < events.size() && !marked_.empty()) {
    Entry& entry = *marked_.front();
    const uint32_t ready = look_at(entry);
    if (ready == 0) continue;
    events[count].events = ready;
    events[count].data = entry.event.data;
    ++count;
    unmark(entry);
    if ((entry.event.events & EPOLLONESHOT) != 0) entry.is_disabled = true;
    else if ((entry.event.events & EPOLLET) == 0) again.push_back(&entry);
  }
  for (Entry* entry : again) {
    entry->is_marked = true;
    entry->at = marked_.insert(marked_.end(), entry);
  }
  return count;
}

// -- entries

// The longest path from this instance up to one that nobody watches. There are no cycles, and no path is
// longer than kMostDepth.
int EpollFile::depth_above() const {
  int depth = 0;
  for (std::set<const EpollFile*> level = {this}; depth <= kMostDepth; ++depth) {
    std::set<const EpollFile*> next;
    for (const EpollFile* each : level) next.insert(each->watched_by_.begin(), each->watched_by_.end());
    if (next.empty()) break;
    level = std::move(next);
  }
  return depth;
}

Done EpollFile::check_depth(EpollFile& watched) {
  int depth = depth_above() + 1;
  std::set<EpollFile*> level = {&watched};
  while (!level.empty()) {
    if (level.contains(this) || depth > kMostDepth) return err(ELOOP);
    std::set<EpollFile*> next;
    for (EpollFile* each : level) next.insert(each->watched_.begin(), each->watched_.end());
    level = std::move(next);
    ++depth;
  }
  return {};
}

Done EpollFile::add(int descriptor, const FileRef& file, const epoll_event& event) {
  if (!file->can_poll()) return err(EPERM);
  if (file.get() == this) return err(EINVAL);
  auto* watched = dynamic_cast<EpollFile*>(file.get());
  if ((event.events & EPOLLEXCLUSIVE) != 0 && watched != nullptr) return err(EINVAL);
  const Key key(descriptor, file.get());
  if (const auto found = entries_.find(key); found != entries_.end()) {
    if (!found->second->file.expired()) return err(EEXIST);
    entries_.erase(found);
  }
  if (watched != nullptr) MEMBRANE_TRY(check_depth(*watched));
  if (entries_.size() >= kMostEntries) {
    std::erase_if(entries_, [](const auto& each) { return each.second->file.expired(); });
    if (entries_.size() >= kMostEntries) return err(ENOSPC);
  }
  auto& entry = entries_[key] = std::make_unique<Entry>(*this, key, file);
  entry->event = event;
  file->join(*entry);
  mark(*entry);  // checked on demand
  return {};
}

Done EpollFile::modify(int descriptor, const FileRef& file, const epoll_event& event) {
  const auto found = entries_.find(Key(descriptor, file.get()));
  if (found == entries_.end() || found->second->file.expired()) return err(ENOENT);
  Entry& entry = *found->second;
  if (((entry.event.events | event.events) & EPOLLEXCLUSIVE) != 0) return err(EINVAL);
  entry.event = event;
  entry.is_disabled = false;
  unmark(entry);
  mark(entry);
  return {};
}

Done EpollFile::remove(int descriptor, const FileRef& file) {
  return entries_.erase(Key(descriptor, file.get())) != 0 ? Done() : err(ENOENT);
}

std::vector<EpollFile::Watched> EpollFile::watched() const {
  std::vector<Watched> all;
  for (const auto& [key, entry] : entries_)
    if (FileRef file = entry->file.lock())
      all.push_back({key.first, std::move(file), entry->event, entry->is_disabled});
  return all;
}

Done EpollFile::watch_again(const Watched& watched) {
  MEMBRANE_TRY(add(watched.descriptor, watched.file, watched.event));
  if (!watched.is_disabled) return {};
  Entry& entry = *entries_.at(Key(watched.descriptor, watched.file.get()));
  entry.is_disabled = true;
  unmark(entry);
  return {};
}

Try<std::shared_ptr<EpollFile>> make_epoll_file(int flags) {
  if ((flags & ~EPOLL_CLOEXEC) != 0) return err(EINVAL);
  return std::make_shared<EpollFile>(make_anonymous_node(AnonymousDevice::kOthers, 0600));
}

}  // namespace membrane::linux
