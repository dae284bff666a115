// The table of open files of a process: descriptor numbers to descriptions. Threads: the kernel's thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "linux/abi/answer.h"
#include "linux/files/file.h"

namespace membrane::linux {

class Descriptors {
 public:
  struct Entry {
    FileRef file;
    bool closes_on_exec = false;
  };

  // Errors: EBADF.
  [[nodiscard]] Try<FileRef> get(int descriptor) const;
  // Returns the lowest free number that is at least `from`. Errors: EMFILE when that is `limit` or more.
  Try<int> add(FileRef file, bool closes_on_exec, uint64_t limit, int from = 0);
  // Replaces the descriptor's file and returns the previous one, which the caller closes. Errors: EBADF for a
  // number that is `limit` or more.
  Try<FileRef> set(int descriptor, FileRef file, bool closes_on_exec, uint64_t limit);
  Try<FileRef> remove(int descriptor);
  [[nodiscard]] Try<bool> closes_on_exec(int descriptor) const;
  Done set_closes_on_exec(int descriptor, bool closes);
  [[nodiscard]] std::shared_ptr<Descriptors> copy() const;
  // Returns the removed files, which the caller closes.
  std::vector<FileRef> remove_for_exec();
  std::vector<FileRef> remove_all();
  std::vector<FileRef> remove_range(uint32_t first, uint32_t last);
  [[nodiscard]] std::vector<int> numbers() const;

  // The process's record locks of a node (locks.h): released when any descriptor of the node is closed, and
  // not copied.
  [[nodiscard]] bool has_locks(const Node& node) const { return locks_.contains(&node); }
  void keep_locks(const Node& node, std::shared_ptr<void> locks) { locks_[&node] = std::move(locks); }

 private:
  friend class KernelState;  // linux/kept/kernel_state.h
  FileRef let_go(Entry& entry);
  std::vector<Entry> entries_;
  std::map<const Node*, std::shared_ptr<void>> locks_;
};

}  // namespace membrane::linux
