// inotify: notifies programs of what happens to files. System calls that change or use a node announce it;
// the files of its watchers queue the events. Threads: the kernel's thread.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "linux/files/file.h"

namespace membrane::linux {

class InotifyFile;

// All watches of a kernel. They keep their nodes alive.
class Watches {
 public:
  static constexpr size_t kMostFiles = 128, kMostWatches = 65536, kMostNotices = 256;

  // `mask`: one of IN_ACCESS, IN_MODIFY, IN_ATTRIB, IN_CLOSE_WRITE…, plus IN_ISDIR for an event of a
  // directory. If `node` is a directory and the event happened in it, `name` is the entry's name. `cookie`
  // joins the two halves of a move. After IN_DELETE_SELF and IN_UNMOUNT nothing watches the node any more.
  void announce(const Node& node, uint32_t mask, std::string_view name = {}, uint32_t cookie = 0);
  // An event of a file: announces it to the watchers of its directory (nullptr when unknown) with the file's
  // name, then to the watchers of the file.
  void announce_both(const Node* directory, std::string_view name, const Node& node, uint32_t mask);
  [[nodiscard]] uint32_t next_cookie() { return ++last_cookie_; }
  [[nodiscard]] bool is_empty() const { return by_node_.empty() && notices_.empty(); }

  // F_NOTIFY: calls `tell` when an event of `mask` happens in the open directory, once or each time. This
  // replaces the notice of the same file and process; a mask of 0 only removes it. The notice ends with the
  // file. Errors: ENOSPC.
  Done set_notice(const FileRef& directory, int process, uint32_t mask, bool is_once,
                  std::function<void()> tell);

 private:
  friend class FileState;  // linux/kept/file_state.h
  friend class InotifyFile;
  friend Try<std::shared_ptr<InotifyFile>> make_inotify_file(const std::shared_ptr<Watches>& all, int flags);
  struct Notice {
    std::weak_ptr<File> directory;
    int process = 0;
    uint32_t mask = 0;
    bool is_once = false;
    std::function<void()> tell;
  };
  void notify(const Node& node, uint32_t mask);
  std::map<const Node*, std::vector<InotifyFile*>> by_node_;
  std::vector<Notice> notices_;
  size_t files_ = 0, watches_ = 0;
  uint32_t last_cookie_ = 0;
};

class InotifyFile final : public File {
 public:
  static constexpr size_t kMostEvents = 16384;
  ~InotifyFile() override;
  [[nodiscard]] const NodeRef& node() const override { return node_; }
  [[nodiscard]] std::string description() const override { return "anon_inode:inotify"; }
  // As many whole events as there is room for. Errors: EAGAIN; EINVAL when the first has no room.
  Try<size_t> read(Caller& caller, Buffer& to) override;
  short ready() override { return events_.empty() ? 0 : POLLIN | POLLRDNORM; }
  void join(Waiter& waiter) override { waiter.join(changed_); }
  bool can_poll() override { return true; }
  Try<int64_t> ioctl(Caller& caller, uint64_t request, uint64_t argument) override;

  // Returns the number of the watch: the existing one if the node is watched already. `mask` is that of
  // inotify_add_watch(); the caller has followed the path as IN_DONT_FOLLOW and IN_ONLYDIR demand. Errors:
  // EINVAL, EEXIST, ENOSPC.
  Try<int> add_watch(const NodeRef& node, uint32_t mask);
  Done remove_watch(int watch);  // EINVAL

 private:
  friend class FileState;  // linux/kept/file_state.h
  friend class Watches;
  friend Try<std::shared_ptr<InotifyFile>> make_inotify_file(const std::shared_ptr<Watches>& all, int flags);
  struct Watch {
    NodeRef node;
    uint32_t mask = 0;
  };
  struct Event {
    int watch = 0;
    uint32_t mask = 0, cookie = 0;
    std::string name;
    [[nodiscard]] size_t name_bytes() const;  // in the record, with zeros
    bool operator==(const Event&) const = default;
  };
  InotifyFile(std::shared_ptr<Watches> all, NodeRef node);
  void tell(const Node& node, uint32_t mask, std::string_view name, uint32_t cookie);
  void queue(Event event);
  void forget(int watch);
  const std::shared_ptr<Watches> all_;
  const NodeRef node_;
  std::map<int, Watch> watches_;
  std::map<const Node*, int> numbers_;
  std::deque<Event> events_;
  int last_ = 0;
  WaitQueue changed_;
};

// `flags`: IN_NONBLOCK, IN_CLOEXEC (which is the descriptor's). Errors: EINVAL, EMFILE.
Try<std::shared_ptr<InotifyFile>> make_inotify_file(const std::shared_ptr<Watches>& all, int flags);

}  // namespace membrane::linux
