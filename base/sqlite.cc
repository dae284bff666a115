#include "base/sqlite.h"

#include "base/shared_library.h"

namespace membrane::sqlite {
namespace {

// --- accounting ------------------------------------------------------------------------

thread_local Account* current = nullptr;
sqlite3_mem_methods system_memory{};
bool accounting_works = false;

// Whether `bytes` more may be allocated.
bool may_take(int64_t bytes) {
  if (current == nullptr || bytes <= 0) return true;
  if (current->expired.load(std::memory_order_relaxed)) return false;
  if (bytes <= current->limit_bytes - current->used_bytes) return true;
  current->refused = true;
  return false;
}
void took(int64_t bytes) {
  if (current != nullptr) current->used_bytes += bytes;
}

void* allocate(int bytes) {
  if (!may_take(bytes)) return nullptr;
  void* const memory = system_memory.xMalloc(bytes);
  if (memory != nullptr) took(system_memory.xSize(memory));
  return memory;
}
void release(void* memory) {
  took(-system_memory.xSize(memory));
  system_memory.xFree(memory);
}
void* resize(void* memory, int bytes) {
  const int had = system_memory.xSize(memory);
  if (!may_take(int64_t{bytes} - had)) return nullptr;
  void* const moved = system_memory.xRealloc(memory, bytes);
  if (moved != nullptr) took(int64_t{system_memory.xSize(moved)} - had);
  return moved;
}

// SQLite takes another allocator only before it is first used in the process.
bool count_memory(const Api& api) {
  if (api.config(SQLITE_CONFIG_GETMALLOC, &system_memory) != SQLITE_OK) return false;
  sqlite3_mem_methods counted = system_memory;
  counted.xMalloc = &allocate;
  counted.xFree = &release;
  counted.xRealloc = &resize;
  return api.config(SQLITE_CONFIG_MALLOC, &counted) == SQLITE_OK;
}

Result<Api> load() {
  MEMBRANE_ASSIGN(const SharedLibrary library, SharedLibrary::open("libsqlite3.so.0"));
  Api api;
#define X(name) MEMBRANE_TRY(library.bind(api.name, "sqlite3_" #name));
  MEMBRANE_SQLITE_FUNCTIONS(X)
#undef X
  accounting_works = count_memory(api);
  return api;
}

}  // namespace

Result<const Api*> api() {
  static const Result<Api> table = load();
  if (!table) return std::unexpected(table.error());
  return &*table;
}

Accounting::Accounting(Account& account) : outer_(std::exchange(current, &account)) {}
Accounting::~Accounting() { current = outer_; }
bool Accounting::works() { return accounting_works; }

int Connection::open(const std::string& path, int flags, const char* vfs) {
  if (const int code = api_->open_v2(path.c_str(), &handle_, flags, vfs); code != SQLITE_OK) return code;
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
