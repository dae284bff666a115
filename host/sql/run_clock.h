// The clock that SQLite's date functions see: 'now' and CURRENT_TIMESTAMP are the run's time, and 'localtime' is UTC,
// so that a query shows nothing of this machine's clock or place.
//
// Threads: a RunClock holds for the statements of the thread that made it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "base/sqlite.h"

namespace membrane::host {

class RunClock {
 public:
  // The name of the VFS that connections must be opened with for their clock to be the run's; null when it cannot
  // be had.
  static const char* vfs(const sqlite::Api& api);

  // `now_ms` gives Unix time in ms. It is asked once, when a statement first wants to know.
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
