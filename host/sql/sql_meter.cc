#include "host/sql/sql_meter.h"

#include <algorithm>
#include <utility>

namespace membrane::host {
namespace {

constexpr uint64_t kOperationsPerArgument = 8;
constexpr uint64_t kValueBytesPerFuel = 4096, kFormatBytesPerFuel = 128;
constexpr uint64_t kPageFuel = 16;
constexpr uint64_t kBytesPerFuel = 64;
constexpr uint64_t kAllocationBytes = 32;
constexpr uint64_t kLookedAtBytesPerFuel = 16;

}  // namespace

SqlMeter::SqlMeter(const sqlite::Api& api, Work& work, sqlite::Account& account)
    : api_(api), work_(work), account_(account) {}

void SqlMeter::begin(uint64_t operations, uint64_t longest_bytes, bool calls_strftime) {
  arguments_ = 1 + operations / kOperationsPerArgument;
  value_bytes_per_fuel_ = calls_strftime ? kFormatBytesPerFuel : kValueBytesPerFuel;
  longest_bytes_ = longest_bytes;
  account_.forget_lasting();
}

// Pages fetched since the last call, from the file or the cache.
uint64_t SqlMeter::pages(sqlite3* connection) {
  uint64_t fetched = 0;
  for (const int what : {SQLITE_DBSTATUS_CACHE_HIT, SQLITE_DBSTATUS_CACHE_MISS}) {
    int count = 0, highest = 0;
    if (api_.db_status(connection, what, &count, &highest, 1) == SQLITE_OK)
      fetched += static_cast<uint32_t>(count);
  }
  return fetched;
}

bool SqlMeter::note(sqlite3* connection, uint64_t steps) {
  const uint64_t longest = std::max(longest_bytes_, account_.take_largest_bytes());
  const uint64_t allocated =
      (account_.allocated_bytes + kAllocationBytes * account_.allocations) / kBytesPerFuel;
  work_.add(steps * arguments_ * (1 + longest / value_bytes_per_fuel_));
  work_.add(kPageFuel * pages(connection));
  work_.add(allocated - std::exchange(allocated_, allocated));
  return !is_too_much();
}

bool SqlMeter::note_running(sqlite3* connection, uint64_t steps) {
  steps_running_ += steps;
  return note(connection, steps);
}

bool SqlMeter::note_stopped(sqlite3* connection, sqlite3_stmt* statement) {
  const auto steps = static_cast<uint32_t>(api_.stmt_status(statement, SQLITE_STMTSTATUS_VM_STEP, 1));
  return note(connection, steps - std::min<uint64_t>(steps, std::exchange(steps_running_, 0)));
}

bool SqlMeter::note_bytes(uint64_t bytes_looked_at) {
  work_.add(1 + bytes_looked_at / kLookedAtBytesPerFuel);
  return !is_too_much();
}

}  // namespace membrane::host
