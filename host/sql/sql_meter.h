// The cost of a query, in fuel, determined only by SQLite's work for it: not by time, nor by the state of its
// caches.
//
//   each step of SQLite's machine    1, times two factors: 1 and 1 for each 8 operations of the statement, since a
//                                    function takes as many arguments; 1 and 1 for each 4 KiB of the largest value that
//                                    there is, since a step may read it whole (each 128 bytes in a statement that calls
//                                    strftime, whose format may ask for a date with every two of its characters)
//   each page of the database or     16, whether it is read or is there still
//     of a table of the query's own
//   memory that is allocated         1 for each 64 bytes, and 32 bytes more for each allocation
//   Membrane's own functions         by the bytes that they look at: sql_reader.cc
//
// Steps are recorded after they are done, a hundred at a time. The work of one step on long values is bounded by
// their length.
//
// Ownership: work, account and connection are borrowed. Threads: one at a time.
#pragma once

#include <cstdint>

#include "base/sqlite.h"
#include "host/work.h"

namespace membrane::host {

class SqlMeter {
 public:
  // Starts counting here.
  SqlMeter(const sqlite::Api& api, Work& work, sqlite::Account& account);
  void forget_pages(sqlite3* connection) { static_cast<void>(pages(connection)); }
  // The statement is compiled and starts. `longest_bytes`: of a literal or a parameter.
  void begin(uint64_t operations, uint64_t longest_bytes, bool calls_strftime);

  // Records steps, and everything else since the last call. False: the limit is exceeded.
  bool note(sqlite3* connection, uint64_t steps);
  // Steps that a handler records while the statement runs, and at its end those that it did not see.
  bool note_running(sqlite3* connection, uint64_t steps);
  bool note_stopped(sqlite3* connection, sqlite3_stmt* statement);
  // For a function of Membrane's own.
  bool note_bytes(uint64_t bytes_looked_at);

  [[nodiscard]] bool is_too_much() const { return work_.is_too_much(); }

 private:
  uint64_t pages(sqlite3* connection);

  const sqlite::Api& api_;
  Work& work_;
  sqlite::Account& account_;
  uint64_t arguments_ = 1, longest_bytes_ = 0, value_bytes_per_fuel_ = 1;
  uint64_t allocated_ = 0;      // of the account, as recorded so far
  uint64_t steps_running_ = 0;  // recorded since the statement was last stopped
};

}  // namespace membrane::host
