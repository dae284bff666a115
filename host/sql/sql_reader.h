// Read-only SQL on one SQLite file, safe to give to a program that nobody has read.
//
// The file is opened read-only; an authorizer lets through SELECT and a list of functions
// that only compute; the time, the rows, the bytes of the answer, the length of any value
// and the memory of the query are bounded. Errors are written for the author of the
// statement: "no such column: nmae" comes with the column that was probably meant.
//
// Threads: one at a time.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "host/errno.h"
#include "policy/policy.h"

namespace membrane::host {

class SqlReader {
 public:
  static HostResult<std::unique_ptr<SqlReader>> open(const policy::SqlGrant& grant);
  ~SqlReader();

  // The rows as a JSON array of objects, keys in column order. `parameters_json` is an
  // array of null, booleans, numbers and strings, bound to ?1, ?2, …; "" binds none.
  // Blobs become base64 text; infinities become the texts "inf" and "-inf". A column name
  // that comes twice gets "_2", "_3", … at its end.
  //
  //   EINVAL     not one statement of SQL, or the parameters do not fit it
  //   EACCES     the statement does more than read
  //   ENOENT     no such table, column or function
  //   E2BIG      more rows or bytes than the grant allows; nothing is given
  //   ETIMEDOUT  ran longer than the grant's timeout or `timeout_ms`, whichever is less
  //   EHOST      the file is damaged or is no database
  HostResult<std::string> query(std::string_view sql, std::string_view parameters_json, uint64_t timeout_ms);

 private:
  class Impl;
  explicit SqlReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace membrane::host
