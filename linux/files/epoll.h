// epoll: many files are waited for at once, and only those are looked at that were woken.
//
// Each watched file has a waiter in the file's queues. When one is woken, its entry is marked, and the queue of the epoll instance is
// woken; a marked entry wakes no one again until collect() or ready() has found that its file is not ready, or has told of it. So one
// wake costs no more than the entries that it marks, through all instances that watch each other; how deep they may is limited.
//
// A file is not kept by those who watch it: its entry ends with its last descriptor. Threads: the kernel's one.
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

  // epoll_ctl(). An entry is known by descriptor and file. `event.events` may have EPOLLET, EPOLLONESHOT; EPOLLEXCLUSIVE (all are woken
  // none the less) and EPOLLWAKEUP are taken and mean nothing. Errors: EEXIST, ENOENT, EPERM for a file that cannot be polled, EINVAL for the
  // instance itself, ELOOP, ENOSPC.
  Done add(int descriptor, const FileRef& file, const epoll_event& event);
  Done modify(int descriptor, const FileRef& file, const epoll_event& event);
  Done remove(int descriptor, const FileRef& file);

  // epoll_wait(): what is ready, up to the size of `events`; gives how many. Files that have been told of come last the next time.
  size_t collect(std::span<epoll_event> events);

  // All that it watches, for keeping it; and another one that watches that. Errors: those of add().
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
  // What is ready of it; 0 also when the file is gone, and the entry then, too.
  uint32_t look_at(Entry& entry);

  const NodeRef node_;
  std::vector<EpollFile*> watched_by_, watched_;  // once for each entry
  WaitQueue changed_;
  std::list<Entry*> marked_;
  std::map<Key, std::unique_ptr<Entry>> entries_;  // goes first: entries leave queues, and marked_
};

// `flags`: EPOLL_CLOEXEC, which is the descriptor's. Errors: EINVAL.
Try<std::shared_ptr<EpollFile>> make_epoll_file(int flags);

}  // namespace membrane::linux
