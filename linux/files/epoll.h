// epoll: waits for many files at once and inspects only those that were woken.
//
// Each watched file has a waiter in the file's queues. Waking it marks its entry and wakes the queue of the
// epoll instance. A marked entry causes no further wakes until collect() or ready() has found that its file
// is not ready, or has reported it. So one wake costs no more than the entries that it marks, through all
// instances that watch each other; the depth of such nesting is limited.
//
// An instance does not keep the files that it watches alive: an entry ends with the file's last descriptor.
// Threads: the kernel's thread.
#pragma once

#include <sys/epoll.h>

#include <list>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "linux/files/file.h"

namespace membrane::linux {

class EpollFile final : public File {
 public:
  static constexpr size_t kMostEntries = 16384;
  static constexpr int kMostDepth = 5;  // of instances that watch instances

  explicit EpollFile(NodeRef node);
  ~EpollFile() override;
  [[nodiscard]] const NodeRef& node() const override { return node_; }
  [[nodiscard]] std::string description() const override { return "anon_inode:[eventpoll]"; }
  short ready() override;
  void join(Waiter& waiter) override { waiter.join(changed_); }
  bool can_poll() override { return true; }

  // epoll_ctl(). A descriptor and file identify an entry. `event.events` may contain EPOLLET and
  // EPOLLONESHOT; EPOLLEXCLUSIVE (all watchers are woken nonetheless) and EPOLLWAKEUP are accepted and
  // ignored. Errors: EEXIST, ENOENT, EPERM for a file that cannot be polled, EINVAL for the instance itself,
  // ELOOP, ENOSPC.
  Done add(int descriptor, const FileRef& file, const epoll_event& event);
  Done modify(int descriptor, const FileRef& file, const epoll_event& event);
  Done remove(int descriptor, const FileRef& file);

  // epoll_wait(): stores the ready events, up to the size of `events`, and returns their number. Files that
  // were reported come last the next time.
  size_t collect(std::span<epoll_event> events);

  // Lists everything that the instance watches, so that it can be saved and restored. Errors: those of add().
  struct Watched {
    int descriptor = -1;
    FileRef file;
    epoll_event event = {};
    bool is_disabled = false;  // by EPOLLONESHOT
  };
  [[nodiscard]] std::vector<Watched> watched() const;
  Done watch_again(const Watched& watched);

 private:
  using Key = std::pair<int, const File*>;
  class Entry;
  Done check_depth(EpollFile& watched);
  [[nodiscard]] int depth_above() const;
  void mark(Entry& entry);
  void unmark(Entry& entry);
  void erase(Entry& entry);
  // The file's ready events; 0 also when the file is closed, in which case the entry is removed too.
  uint32_t look_at(Entry& entry);

  const NodeRef node_;
  std::vector<EpollFile*> watched_by_, watched_;  // once for each entry
  WaitQueue changed_;
  std::list<Entry*> marked_;
  std::map<Key, std::unique_ptr<Entry>> entries_;  // destroyed first: entries leave queues and marked_
};

// `flags`: EPOLL_CLOEXEC, which is the descriptor's. Errors: EINVAL.
Try<std::shared_ptr<EpollFile>> make_epoll_file(int flags);

}  // namespace membrane::linux
