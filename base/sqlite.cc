#include "base/sqlite.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <utility>

#include "base/shared_library.h"

namespace membrane::sqlite {
namespace {

// --- accounting ------------------------------------------------------------------------

thread_local Account* current = nullptr;
thread_local bool for_pages = false;  // the current allocation is for pages of a file
bool accounting_works = false;
sqlite3_pcache_methods2 page_cache{};

// Precedes each allocation; SQLite needs 8 bytes of alignment.
struct Header {
  uint64_t bytes;
  uint64_t account;  // 0: not accounted
};

constexpr int rounded(int bytes) { return (bytes + 7) & ~7; }

Header* header_of(void* memory) { return static_cast<Header*>(memory) - 1; }

// Whether `bytes` more may be allocated.
bool may_take(int64_t bytes) {
  if (current == nullptr || bytes <= 0) return true;
  if (current->expired.load(std::memory_order_relaxed)) return false;
  if (bytes <= current->limit_bytes - current->used_bytes) return true;
  current->refused = true;
  return false;
}

// Records that the memory now has `bytes`; it had `had` before.
void* noted(Header* header, int bytes, int64_t had) {
  if (header == nullptr) return nullptr;
  header->bytes = static_cast<uint64_t>(bytes);
  header->account = 0;
  if (current != nullptr) {
    current->used_bytes += bytes - had;
    if (!for_pages) {
      header->account = current->number;
      current->add(header->bytes);
    }
  }
  return header + 1;
}

// Removes the memory from its account before it is freed or resized.
void leave(const Header& header) {
  if (current != nullptr && header.account == current->number) current->remove(header.bytes);
}

void* allocate(int bytes) {
  bytes = rounded(bytes);
  if (!may_take(bytes)) return nullptr;
  return noted(static_cast<Header*>(std::malloc(sizeof(Header) + static_cast<size_t>(bytes))), bytes, 0);
}
void release(void* memory) {
  Header* const header = header_of(memory);
  leave(*header);
  if (current != nullptr) current->used_bytes -= static_cast<int64_t>(header->bytes);
  std::free(header);
}
void* resize(void* memory, int bytes) {
  bytes = rounded(bytes);
  Header* const header = header_of(memory);
  const auto had = static_cast<int64_t>(header->bytes);
  if (!may_take(bytes - had)) return nullptr;
  const Header before = *header;
  auto* const moved = static_cast<Header*>(std::realloc(header, sizeof(Header) + static_cast<size_t>(bytes)));
  if (moved == nullptr) return nullptr;
  leave(before);
  return noted(moved, bytes, had);
}
int size_of(void* memory) { return memory == nullptr ? 0 : static_cast<int>(header_of(memory)->bytes); }

sqlite3_pcache_page* fetch_page(sqlite3_pcache* cache, unsigned key, int create) {
  const bool before = std::exchange(for_pages, true);
  sqlite3_pcache_page* const page = page_cache.xFetch(cache, key, create);
  for_pages = before;
  return page;
}

// SQLite accepts another allocator only before its first use in the process.
bool count_memory(const Api& api) {
  sqlite3_mem_methods counted{.xMalloc = &allocate,
                              .xFree = &release,
                              .xRealloc = &resize,
                              .xSize = &size_of,
                              .xRoundup = &rounded,
                              .xInit = [](void*) { return SQLITE_OK; },
                              .xShutdown = [](void*) {},
                              .pAppData = nullptr};
  if (api.config(SQLITE_CONFIG_MALLOC, &counted) != SQLITE_OK) return false;
  // Pages are allocated one by one.
  if (api.config(SQLITE_CONFIG_PAGECACHE, nullptr, 0, 0) != SQLITE_OK) return false;
  if (api.config(SQLITE_CONFIG_GETPCACHE2, &page_cache) != SQLITE_OK) return false;
  sqlite3_pcache_methods2 counting = page_cache;
  counting.xFetch = &fetch_page;
  return api.config(SQLITE_CONFIG_PCACHE2, &counting) == SQLITE_OK;
}

Result<Api> load() {
  MEMBRANE_ASSIGN(const SharedLibrary library, SharedLibrary::open("libsqlite3.so.0", "libsqlite3-0"));
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

void Account::add(uint64_t bytes) {
  const auto bits = static_cast<size_t>(std::bit_width(bytes));
  ++allocations;
  allocated_bytes += bytes;
  ++lasting_[bits];
  largest_bits_ = std::max(largest_bits_, bits);
}
void Account::remove(uint64_t bytes) { --lasting_[static_cast<size_t>(std::bit_width(bytes))]; }

uint64_t Account::take_largest_bytes() {
  const size_t largest = largest_bits_;
  while (largest_bits_ > 0 && lasting_[largest_bits_] == 0) --largest_bits_;
  return largest == 0 ? 0 : uint64_t{1} << (largest - 1);
}

void Account::forget_lasting() {
  static std::atomic<uint64_t> last = 0;
  number = ++last;
  lasting_ = {};
  largest_bits_ = 0;
}

Accounting::Accounting(Account& account) : outer_(std::exchange(current, &account)) {
  account.forget_lasting();
}
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
