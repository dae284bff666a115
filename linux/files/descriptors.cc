#include "linux/files/descriptors.h"

#include <algorithm>
#include <utility>

namespace membrane::linux {
namespace {

using Entries = std::vector<Descriptors::Entry>;

bool has(const Entries& entries, int descriptor) {
  return descriptor >= 0 && static_cast<size_t>(descriptor) < entries.size() &&
         entries[static_cast<size_t>(descriptor)].file != nullptr;
}

// Free entries at the end are removed.
void trim(Entries& entries) {
  while (!entries.empty() && entries.back().file == nullptr) entries.pop_back();
}

}  // namespace

// Empties an entry. The process's locks on the file are released.
FileRef Descriptors::let_go(Entry& entry) {
  FileRef file = std::move(entry.file);
  entry = {};
  if (file != nullptr && !locks_.empty() && file->node() != nullptr) locks_.erase(file->node().get());
  return file;
}

Try<FileRef> Descriptors::get(int descriptor) const {
  if (!has(entries_, descriptor)) return err(EBADF);
  return entries_[static_cast<size_t>(descriptor)].file;
}

Try<int> Descriptors::add(FileRef file, bool closes_on_exec, uint64_t limit, int from) {
  if (from < 0) return err(EINVAL);
  size_t at = static_cast<size_t>(from);
  while (at < entries_.size() && entries_[at].file != nullptr) ++at;
  if (at >= limit) return err(EMFILE);
  if (at >= entries_.size()) entries_.resize(at + 1);
  entries_[at] = {std::move(file), closes_on_exec};
  return static_cast<int>(at);
}

Try<FileRef> Descriptors::set(int descriptor, FileRef file, bool closes_on_exec, uint64_t limit) {
  if (descriptor < 0 || static_cast<uint64_t>(descriptor) >= limit) return err(EBADF);
  const auto at = static_cast<size_t>(descriptor);
  if (at >= entries_.size()) entries_.resize(at + 1);
  FileRef before = let_go(entries_[at]);
  entries_[at] = {std::move(file), closes_on_exec};
  return before;
}

Try<FileRef> Descriptors::remove(int descriptor) {
  if (!has(entries_, descriptor)) return err(EBADF);
  FileRef file = let_go(entries_[static_cast<size_t>(descriptor)]);
  trim(entries_);
  return file;
}

Try<bool> Descriptors::closes_on_exec(int descriptor) const {
  if (!has(entries_, descriptor)) return err(EBADF);
  return entries_[static_cast<size_t>(descriptor)].closes_on_exec;
}

Done Descriptors::set_closes_on_exec(int descriptor, bool closes) {
  if (!has(entries_, descriptor)) return err(EBADF);
  entries_[static_cast<size_t>(descriptor)].closes_on_exec = closes;
  return {};
}

std::shared_ptr<Descriptors> Descriptors::copy() const {
  auto made = std::make_shared<Descriptors>();
  made->entries_ = entries_;
  return made;
}

std::vector<FileRef> Descriptors::remove_for_exec() {
  std::vector<FileRef> removed;
  for (Entry& entry : entries_) {
    if (entry.file == nullptr || !entry.closes_on_exec) continue;
    removed.push_back(let_go(entry));
  }
  trim(entries_);
  return removed;
}

std::vector<FileRef> Descriptors::remove_all() { return remove_range(0, ~uint32_t{0}); }

std::vector<FileRef> Descriptors::remove_range(uint32_t first, uint32_t last) {
  std::vector<FileRef> removed;
  const size_t end = std::min<size_t>(entries_.size(), size_t{last} + 1);
  for (size_t at = first; at < end; ++at) {
    if (entries_[at].file == nullptr) continue;
    removed.push_back(let_go(entries_[at]));
  }
  trim(entries_);
  return removed;
}

std::vector<int> Descriptors::numbers() const {
  std::vector<int> numbers;
  for (size_t at = 0; at < entries_.size(); ++at)
    if (entries_[at].file != nullptr) numbers.push_back(static_cast<int>(at));
  return numbers;
}

}  // namespace membrane::linux
