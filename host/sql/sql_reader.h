// Read-only SQL on one SQLite file, safe for untrusted programs.
//
// The file is read without a trace (read_only_file.h); an authorizer allows SELECT and a list of pure functions; the
// time, the rows, the bytes of the answer, the length of any value and the memory of the query are bounded. 'now' is
// the run's time (run_clock.h). Errors are written for the author of the statement: "no such column: nmae" comes
// with the column that was probably meant.
//
// How a long query is stopped at any point: a watchdog interrupts it between two steps of SQLite's machine, and
// makes each allocation fail from then on (base/sqlite.h), which ends long functions. A step that neither can
// interrupt is bounded by the length of values: the longer the statement, the shorter they may be.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "host/deadline.h"
#include "host/errno.h"
#include "host/work.h"
#include "policy/policy.h"

namespace membrane::host {

class SqlReader {
 public:
  static constexpr uint64_t kMaxQueryMemoryBytes = 24u << 20;  // sorting and recursion keep rows in memory

  // `now_ms` is the run's clock: Unix time in ms. A query calls it at most once.
  static HostResult<std::unique_ptr<SqlReader>> open(const policy::SqlGrant& grant,
                                                     std::function<int64_t()> now_ms);
  ~SqlReader();

  // The rows as a JSON array of objects, keys in column order. `parameters_json` is an array of null, booleans,
  // numbers and strings, bound to ?1, ?2, …; "" binds none. Blobs become base64 text; infinities become the texts
  // "inf" and "-inf". A repeated column name gets "_2", "_3", … at its end.
  //
  //   EINVAL     not one statement of SQL, or the parameters do not fit it
  //   EACCES     the statement does more than read
  //   ENOENT     no such table, column or function
  //   E2BIG      more rows or bytes than the grant allows, or more memory than `memory_bytes` and kMaxQueryMemoryBytes
  //              while it runs; nothing is given
  //   ETIMEDOUT  ran longer than the grant's timeout or until the run's deadline
  //   EHOST      the file is damaged or is not a database
  //
  // `work` records SQLite's work (sql_meter.h), also for a query that fails; when it exceeds its limit the query
  // ends, with EBUDGET.
  HostResult<std::string> query(std::string_view sql, std::string_view parameters_json, const Deadline& run,
                                Work& work, uint64_t memory_bytes = kMaxQueryMemoryBytes);

 private:
  class Impl;
  explicit SqlReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace membrane::host
