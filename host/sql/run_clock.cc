#include "host/sql/run_clock.h"

#include <algorithm>
#include <ctime>
#include <utility>

namespace membrane::host {
namespace {

constexpr char kName[] = "membrane";
thread_local RunClock* current = nullptr;

}  // namespace

struct RunClockVfs {
  // SQLite counts ms since noon in Greenwich on November 24, 4714 B.C., up to the end of the year 9999.
  static constexpr int64_t kUnixEpochMs = 210'866'760'000'000, kLastMs = 464'269'060'799'999;

  static int time_ms(sqlite3_vfs* vfs, sqlite3_int64* out) {
    if (current == nullptr) return system.xCurrentTimeInt64(vfs, out);
    const int64_t now_ms = std::clamp(current->now_ms(), -kUnixEpochMs, kLastMs - kUnixEpochMs);
    *out = now_ms + kUnixEpochMs;
    return SQLITE_OK;
  }
  static int time_days(sqlite3_vfs* vfs, double* out) {
    sqlite3_int64 ms = 0;
    const int code = time_ms(vfs, &ms);
    *out = static_cast<double>(ms) / 86'400'000.0;
    return code;
  }
  // SQLite's hook for tests of 'localtime'; 0 means that `out` is filled in.
  static int local_time(const void* seconds, void* out) {
    const auto* const from = static_cast<const time_t*>(seconds);
    auto* const to = static_cast<tm*>(out);
    return (current != nullptr ? gmtime_r(from, to) : localtime_r(from, to)) == nullptr ? 1 : 0;
  }

  // The system's VFS with another clock. Its functions take what they need from the structure, which is a copy.
  static bool install(const sqlite::Api& api) {
    const sqlite3_vfs* const found = api.vfs_find(nullptr);
    if (found == nullptr || found->iVersion < 2 || found->xCurrentTimeInt64 == nullptr) return false;
    system = *found;
    ours = *found;
    ours.zName = kName;
    ours.pNext = nullptr;
    ours.xCurrentTime = &time_days;
    ours.xCurrentTimeInt64 = &time_ms;
    constexpr int kOtherLocalTime = 2;
    return api.test_control(SQLITE_TESTCTRL_LOCALTIME_FAULT, kOtherLocalTime, &local_time) == SQLITE_OK &&
           api.vfs_register(&ours, 0) == SQLITE_OK;
  }

  static inline sqlite3_vfs system{}, ours{};
};

const char* RunClock::vfs(const sqlite::Api& api) {
  static const bool installed = RunClockVfs::install(api);
  return installed ? kName : nullptr;
}

RunClock::RunClock(std::function<int64_t()> now_ms)
    : ask_(std::move(now_ms)), outer_(std::exchange(current, this)) {}
RunClock::~RunClock() { current = outer_; }

int64_t RunClock::now_ms() {
  if (!now_ms_) now_ms_ = ask_();
  return *now_ms_;
}

}  // namespace membrane::host
