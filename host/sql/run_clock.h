// The clock of SQLite's date functions: 'now' and CURRENT_TIMESTAMP are the run's time, and 'localtime' is UTC, so
// that a query reveals nothing of this machine's clock or location.
//
// Threads: a RunClock applies to the statements of the thread that created it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "base/sqlite.h"

namespace membrane::host {

class RunClock {
 public:
  // The name of the VFS with which connections must be opened to use the run's clock; null when it is not available.
  static const char* vfs(const sqlite::Api& api);

  // `now_ms` returns Unix time in ms. It is called once, when a statement first needs it.
  explicit RunClock(std::function<int64_t()> now_ms);
  ~RunClock();
  RunClock(const RunClock&) = delete;
  RunClock& operator=(const RunClock&) = delete;

 private:
  friend struct RunClockVfs;
  int64_t now_ms();

  std::function<int64_t()> ask_;
  std::optional<int64_t> now_ms_;
  RunClock* outer_;
};

}  // namespace membrane::host
