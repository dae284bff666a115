// The table of open files of a process: descriptor numbers to descriptions. Threads: the kernel's one.
#pragma once

#include <cstdint>
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
  // The lowest free one, not below `from`. Errors: EMFILE when that is `limit` or more.
  Try<int> add(FileRef file, bool closes_on_exec, uint64_t limit, int from = 0);
  // Replaces what is there, which is given back for its close. Errors: EBADF for one that is `limit` or more.
  Try<FileRef> set(int descriptor, FileRef file, bool closes_on_exec, uint64_t limit);
  Try<FileRef> remove(int descriptor);
  [[nodiscard]] Try<bool> closes_on_exec(int descriptor) const;
  Done set_closes_on_exec(int descriptor, bool closes);
  [[nodiscard]] std::shared_ptr<Descriptors> copy() const;
  // What was closed, for its close.
  std::vector<FileRef> remove_for_exec();
  std::vector<FileRef> remove_all();
  std::vector<FileRef> remove_range(uint32_t first, uint32_t last);
  [[nodiscard]] std::vector<int> numbers() const;

 private:
  std::vector<Entry> entries_;
};

}  // namespace membrane::linux
