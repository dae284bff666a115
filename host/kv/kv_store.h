// The key-value store for kv.*: an SQLite file, or memory that lives as long as the store.
//
// Keys are UTF-8 text, not empty, ordered by their bytes; values are any bytes. Every quota of the grant is exact,
// even when several processes write to the same file: a write and the check of its sum are one transaction. A store
// that is locked by another process for longer than two seconds, or until the run's deadline, returns ETIMEDOUT; a
// store granted for reading only is read without a trace (sql/read_only_file.h); a damaged file, or one of another
// kind, returns EHOST and is not changed.
//
// Threads: one at a time; open a separate store for each.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "host/deadline.h"
#include "host/errno.h"
#include "policy/policy.h"

namespace membrane::host {

class KvStore {
 public:
  // Bound on a store in memory, whatever the grant says: it uses the host's memory.
  static constexpr uint64_t kMaxBytesInMemory = 8u << 20;

  // Creates the file if the grant is writable and there is none. `run` is borrowed, and must outlive the store.
  static HostResult<std::unique_ptr<KvStore>> open(const policy::KvGrant& grant, const Deadline& run);
  ~KvStore();

  HostResult<std::string> get(std::string_view key);  // ENOENT when there is none
  HostResult<void> set(std::string_view key, std::string_view value);
  HostResult<void> remove(std::string_view key);  // ENOENT when there is none
  // The keys that start with `prefix` and that the grant covers, in byte order.
  HostResult<std::vector<std::string>> keys(std::string_view prefix);

 private:
  class Impl;
  explicit KvStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace membrane::host
