#include "base/sqlite.h"

#include "base/shared_library.h"

namespace membrane::sqlite {
namespace {

Result<Api> load() {
  MEMBRANE_ASSIGN(const SharedLibrary library, SharedLibrary::open("libsqlite3.so.0"));
  Api api;
#define X(name) MEMBRANE_TRY(library.bind(api.name, "sqlite3_" #name));
  MEMBRANE_SQLITE_FUNCTIONS(X)
#undef X
  return api;
}

}  // namespace

Result<const Api*> api() {
  static const Result<Api> table = load();
  if (!table) return std::unexpected(table.error());
  return &*table;
}

int Connection::open(const std::string& path, int flags) {
  if (const int code = api_->open_v2(path.c_str(), &handle_, flags, nullptr); code != SQLITE_OK) return code;
  api_->db_config(handle_, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, nullptr);
  api_->db_config(handle_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  api_->db_config(handle_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  return SQLITE_OK;
}

int Connection::prepare(std::string_view sql, Statement& statement, std::string_view* rest) {
  sqlite3_stmt* handle = nullptr;
  const char* tail = nullptr;
  const int code = api_->prepare_v3(handle_, sql.data(), static_cast<int>(sql.size()), 0, &handle, &tail);
  statement = Statement(*api_, handle);
  if (rest != nullptr && tail != nullptr) *rest = sql.substr(static_cast<size_t>(tail - sql.data()));
  return code;
}

}  // namespace membrane::sqlite
