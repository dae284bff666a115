// SQLite, loaded at the first use, and the two handles that need to be closed.
//
// A thin wrapper: codes are SQLite's own (SQLITE_OK, SQLITE_BUSY, …), so that the caller decides what each means.
// Include only in .cc files.
//
// Ownership: a Statement must be destroyed before its Connection. Threads: a Connection and its statements belong to
// one thread at a time.
#pragma once

#include <sqlite3.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace membrane::sqlite {

// clang-format off
#define MEMBRANE_SQLITE_FUNCTIONS(X) \
  X(open_v2) X(close_v2) X(errmsg) X(errstr) X(exec) X(db_config) X(extended_errcode) \
  X(limit) X(set_authorizer) X(progress_handler) X(memory_used) X(create_function_v2) X(prepare_v3) \
  X(finalize) X(step) X(reset) X(clear_bindings) X(stmt_readonly) X(bind_parameter_count) X(bind_null) \
  X(bind_int64) X(bind_double) X(bind_text64) X(bind_blob64) X(column_count) X(column_name) \
  X(column_type) X(column_int64) X(column_double) X(column_text) X(column_blob) X(column_bytes) \
  X(value_type) X(value_text) X(value_blob) X(value_bytes) X(result_error) X(result_error_toobig) \
  X(result_error_nomem) X(result_null) X(result_int64) X(result_text64) X(user_data) X(strlike) X(strglob) \
  X(hard_heap_limit64) X(soft_heap_limit64) X(busy_handler) X(interrupt) X(stmt_isexplain) X(config) \
  X(vfs_find) X(vfs_register) X(test_control) X(stmt_status) X(db_status)
// clang-format on

struct Api {
#define X(name) decltype(&::sqlite3_##name) name = nullptr;
  MEMBRANE_SQLITE_FUNCTIONS(X)
#undef X
};

// The functions; kUnavailable when the library is not installed.
Result<const Api*> api();

// What SQLite allocates in one thread while an Accounting of this account is in scope. An allocation past the limit,
// or any once `expired` is set, fails as if memory had run out, so that the statement ends with SQLITE_NOMEM. This
// works even inside a long function, where SQLite checks neither a progress handler nor sqlite3_interrupt.
//
// Sizes are the requested ones: the same in each run, whatever the system's allocator adds.
struct Account {
  int64_t limit_bytes = 0;
  int64_t used_bytes = 0;            // freeing memory of an earlier account decreases it
  bool refused = false;              // an allocation exceeded the limit
  std::atomic<bool> expired{false};  // set by any thread

  // Without the memory for pages that SQLite has read, which depends on what its cache still holds.
  uint64_t allocations = 0;
  uint64_t allocated_bytes = 0;  // in total
  // The largest size in use since the last call, within a factor of two. Excludes allocations made before
  // forget_lasting(), and those of pages.
  uint64_t take_largest_bytes();
  void forget_lasting();

  // For the allocator.
  void add(uint64_t bytes);
  void remove(uint64_t bytes);
  uint64_t number = 0;  // differs for each account, and changes when allocations are forgotten

 private:
  std::array<uint32_t, 40> lasting_ = {};  // how many are in use, by the bit width of their size
  size_t largest_bits_ = 0;
};

class Accounting {
 public:
  explicit Accounting(Account& account);
  ~Accounting();
  Accounting(const Accounting&) = delete;
  Accounting& operator=(const Accounting&) = delete;

  // False when something else in the process started SQLite before Membrane loaded it: then nothing is counted or
  // refused.
  static bool works();

 private:
  Account* outer_;
};

class Statement {
 public:
  Statement() = default;
  Statement(const Api& api, sqlite3_stmt* handle) : api_(&api), handle_(handle) {}
  Statement(Statement&& other) noexcept : api_(other.api_), handle_(std::exchange(other.handle_, nullptr)) {}
  Statement& operator=(Statement&& other) noexcept {
    std::swap(api_, other.api_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Statement() {
    if (handle_ != nullptr) api_->finalize(handle_);
  }

  [[nodiscard]] explicit operator bool() const { return handle_ != nullptr; }
  [[nodiscard]] sqlite3_stmt* handle() const { return handle_; }

  // Parameters count from 1. The bytes are copied.
  int bind_text(int index, std::string_view text) {
    return api_->bind_text64(handle_, index, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  }
  int bind_blob(int index, std::string_view bytes) {
    // A null pointer would bind NULL; an empty blob needs an address.
    return api_->bind_blob64(handle_, index, bytes.empty() ? "" : bytes.data(), bytes.size(),
                             SQLITE_TRANSIENT);
  }
  int bind_int(int index, int64_t value) { return api_->bind_int64(handle_, index, value); }
  int step() { return api_->step(handle_); }
  void reset() {
    api_->reset(handle_);
    api_->clear_bindings(handle_);
  }
  // Columns count from 0. Views are valid until the next step or reset, or the end of the statement.
  [[nodiscard]] int64_t int_at(int column) const { return api_->column_int64(handle_, column); }
  [[nodiscard]] std::string_view bytes_at(int column) const {
    const void* data = api_->column_blob(handle_, column);
    return {static_cast<const char*>(data),
            data ? static_cast<size_t>(api_->column_bytes(handle_, column)) : 0};
  }

 private:
  const Api* api_ = nullptr;
  sqlite3_stmt* handle_ = nullptr;
};

class Connection {
 public:
  explicit Connection(const Api& api) : api_(&api) {}
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() {
    if (handle_ != nullptr) api_->close_v2(handle_);
  }

  // `flags` as sqlite3_open_v2 takes them, `vfs` by its name (null: the default). Also hardens the handle: no
  // extension loading, no writing of internals, functions of the schema not trusted.
  int open(const std::string& path, int flags, const char* vfs = nullptr);
  int execute(const char* sql) { return api_->exec(handle_, sql, nullptr, nullptr, nullptr); }
  // Prepares the first statement of `sql`; `rest`, when given, gets the text after it. An empty Statement with
  // SQLITE_OK means that there was only white space or a comment.
  int prepare(std::string_view sql, Statement& statement, std::string_view* rest = nullptr);
  [[nodiscard]] std::string message() const { return handle_ ? api_->errmsg(handle_) : "out of memory"; }
  [[nodiscard]] sqlite3* handle() const { return handle_; }
  [[nodiscard]] const Api& api() const { return *api_; }

 private:
  const Api* api_;
  sqlite3* handle_ = nullptr;
};

}  // namespace membrane::sqlite
