#include "host/kv/kv_store.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/sqlite.h"

namespace membrane::host {
namespace {

policy::Budget unlimited;
const Deadline kNoEnd(unlimited);

namespace fs = std::filesystem;
using Keys = std::vector<std::string>;

std::unique_ptr<KvStore> open_or_die(const policy::KvGrant& grant) {
  auto store = KvStore::open(grant, kNoEnd);
  if (!store) {
    ADD_FAILURE() << store.error().reason;
    std::abort();
  }
  return std::move(*store);
}

policy::KvGrant limited(uint64_t max_keys, uint64_t max_key_bytes, uint64_t max_value_bytes,
                        uint64_t max_total_bytes) {
  policy::KvGrant grant;
  grant.max_keys = max_keys;
  grant.max_key_bytes = max_key_bytes;
  grant.max_value_bytes = max_value_bytes;
  grant.max_total_bytes = max_total_bytes;
  return grant;
}

template <typename T>
Errno code_of(const HostResult<T>& result) {
  return result ? Errno::kOk : result.error().code;
}

class KvFile : public testing::Test {
 public:
  ~KvFile() override { fs::remove_all(directory_); }

 protected:
  KvFile() : directory_(fs::temp_directory_path() / ("membrane-kv-" + std::to_string(::getpid()))) {
    fs::create_directory(directory_);
    grant_.path = (directory_ / "store.db").string();
  }

  fs::path directory_;
  policy::KvGrant grant_;
};

TEST(KvMemory, KeepsWhatWasSet) {
  const auto store = open_or_die({});
  EXPECT_EQ(code_of(store->get("a")), Errno::kNotFound);
  ASSERT_TRUE(store->set("a", "1"));
  ASSERT_TRUE(store->set("a", "2"));
  EXPECT_EQ(store->get("a").value(), "2");
  ASSERT_TRUE(store->remove("a"));
  EXPECT_EQ(code_of(store->get("a")), Errno::kNotFound);
  EXPECT_EQ(code_of(store->remove("a")), Errno::kNotFound);
}

TEST(KvMemory, ValuesAreAnyBytes) {
  const auto store = open_or_die({});
  const std::string bytes("\0\xFF\x80 \0", 5);
  ASSERT_TRUE(store->set("b", bytes));
  EXPECT_EQ(store->get("b").value(), bytes);
  ASSERT_TRUE(store->set("empty", ""));
  EXPECT_EQ(store->get("empty").value(), "");
}

TEST(KvMemory, KeysComeSortedByBytesAndPrefixesAreLiteral) {
  const auto store = open_or_die({});
  for (const char* key : {"b", "a%", "a", "A", "a_1", "ab", "é"}) ASSERT_TRUE(store->set(key, "x"));
  EXPECT_EQ(store->keys("").value(), (Keys{"A", "a", "a%", "a_1", "ab", "b", "é"}));
  EXPECT_EQ(store->keys("a").value(), (Keys{"a", "a%", "a_1", "ab"}));
  EXPECT_EQ(store->keys("a%").value(), (Keys{"a%"}));
  EXPECT_EQ(store->keys("a_").value(), (Keys{"a_1"}));
  EXPECT_EQ(store->keys("zz").value(), Keys{});
}

TEST(KvMemory, ANulInAKeyCutsNothing) {
  const auto store = open_or_die({});
  const std::string key("a\0b", 3);
  ASSERT_TRUE(store->set(key, "1"));
  ASSERT_TRUE(store->set("a", "2"));
  EXPECT_EQ(store->get(key).value(), "1");
  EXPECT_EQ(store->get("a").value(), "2");
  EXPECT_EQ(store->keys("a").value(), (Keys{"a", key}));
}

TEST(KvMemory, SqlInAKeyIsOnlyText) {
  const auto store = open_or_die({});
  const std::string key = "'; DROP TABLE kv; --";
  ASSERT_TRUE(store->set(key, key));
  EXPECT_EQ(store->get(key).value(), key);
  EXPECT_EQ(store->keys("'").value(), Keys{key});
}

TEST(KvMemory, RefusesBadKeys) {
  const auto store = open_or_die(limited(10, 4, 10, 100));
  EXPECT_EQ(code_of(store->set("", "x")), Errno::kInvalid);
  EXPECT_EQ(code_of(store->set("\xFF", "x")), Errno::kInvalid);
  EXPECT_EQ(code_of(store->set("12345", "x")), Errno::kQuota);
  EXPECT_TRUE(store->set("1234", "x"));
}

TEST(KvMemory, QuotasAreExact) {
  const auto store = open_or_die(limited(2, 10, 8, 12));
  EXPECT_EQ(code_of(store->set("a", "123456789")), Errno::kQuota);
  ASSERT_TRUE(store->set("a", "12345"));  // 6 bytes with the key
  ASSERT_TRUE(store->set("b", "12345"));  // 12
  EXPECT_EQ(code_of(store->set("b", "123456")), Errno::kQuota);
  EXPECT_EQ(store->get("b").value(), "12345") << "what is refused changes nothing";
  EXPECT_EQ(code_of(store->set("c", "")), Errno::kQuota) << "a third key";
  ASSERT_TRUE(store->set("a", "1"));  // 8
  ASSERT_TRUE(store->set("b", "12345678")) << "freed bytes can be used again";
  ASSERT_TRUE(store->remove("a"));
  EXPECT_TRUE(store->set("c", "1"));
}

TEST(KvMemory, CountsBytesNotCharacters) {
  const auto store = open_or_die(limited(2, 10, 10, 4));
  EXPECT_EQ(code_of(store->set("é", "éx")), Errno::kQuota);
  EXPECT_TRUE(store->set("é", "é"));
}

TEST(KvMemory, ThePrefixOfTheGrantIsAWall) {
  policy::KvGrant grant;
  grant.prefix = "app/";
  const auto store = open_or_die(grant);
  const auto refused = store->set("other/x", "1");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errno::kAccess);
  EXPECT_FALSE(refused.error().grant.empty());
  EXPECT_EQ(code_of(store->get("app")), Errno::kAccess);
  EXPECT_EQ(code_of(store->remove("App/x")), Errno::kAccess);
  ASSERT_TRUE(store->set("app/x", "1"));
  EXPECT_EQ(store->keys("").value(), Keys{"app/x"});
  EXPECT_EQ(store->keys("app/x").value(), Keys{"app/x"});
  EXPECT_EQ(store->keys("b").value(), Keys{});
}

TEST_F(KvFile, OutlivesTheProcess) {
  { ASSERT_TRUE(open_or_die(grant_)->set("a", "1")); }
  EXPECT_EQ(open_or_die(grant_)->get("a").value(), "1");
}

TEST_F(KvFile, KeysOutsideThePrefixAreNotShown) {
  { ASSERT_TRUE(open_or_die(grant_)->set("other", "1")); }
  grant_.prefix = "p";
  const auto store = open_or_die(grant_);
  ASSERT_TRUE(store->set("p1", "1"));
  EXPECT_EQ(store->keys("").value(), Keys{"p1"});
}

TEST_F(KvFile, ReadOnlyCannotWriteOrMakeTheFile) {
  grant_.writable = false;
  EXPECT_EQ(code_of(KvStore::open(grant_, kNoEnd)), Errno::kHost);
  EXPECT_FALSE(fs::exists(grant_.path));
  grant_.writable = true;
  { ASSERT_TRUE(open_or_die(grant_)->set("a", "1")); }
  grant_.writable = false;
  const auto store = open_or_die(grant_);
  EXPECT_EQ(store->get("a").value(), "1");
  EXPECT_EQ(code_of(store->set("a", "2")), Errno::kAccess);
  EXPECT_EQ(code_of(store->remove("a")), Errno::kAccess);
}

TEST_F(KvFile, ADamagedFileIsAnErrorNotACrash) {
  std::ofstream(grant_.path) << std::string(8192, 'x');
  EXPECT_EQ(code_of(KvStore::open(grant_, kNoEnd)), Errno::kHost);
}

TEST_F(KvFile, AFileDamagedInTheMiddleIsAnErrorNotACrash) {
  {
    const auto store = open_or_die(grant_);
    for (int i = 0; i < 200; ++i) ASSERT_TRUE(store->set("key" + std::to_string(i), std::string(500, 'v')));
  }
  {
    std::fstream file(grant_.path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4096);
    file << std::string(16 * 4096, '\xA5');
  }
  const auto store = KvStore::open(grant_, kNoEnd);
  if (!store) {
    EXPECT_EQ(code_of(store), Errno::kHost);
    return;
  }
  EXPECT_EQ(code_of((*store)->keys("")), Errno::kHost);
  EXPECT_NE(code_of((*store)->set("key1", "x")), Errno::kOk);
}

TEST_F(KvFile, AnotherProgramsDatabaseIsLeftAlone) {
  {
    sqlite::Connection db(**sqlite::api());
    ASSERT_EQ(db.open(grant_.path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE), SQLITE_OK);
    ASSERT_EQ(db.execute("CREATE TABLE t(x)"), SQLITE_OK);
  }
  EXPECT_EQ(code_of(KvStore::open(grant_, kNoEnd)), Errno::kHost);
}

TEST_F(KvFile, TwoProcessesShareOneQuota) {
  grant_.max_keys = 150;
  { open_or_die(grant_); }
  const auto fill = [&](const char* name) {
    const auto store = open_or_die(grant_);
    int stored = 0;
    for (int i = 0; i < 100; ++i) {
      const Errno code = code_of(store->set(name + std::to_string(i), "x"));
      if (code != Errno::kOk && code != Errno::kQuota) return 255;
      stored += code == Errno::kOk;
    }
    return stored;
  };
  const pid_t child = ::fork();
  if (child == 0) ::_exit(fill("child"));
  const int mine = fill("parent");
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_NE(mine, 255);
  EXPECT_EQ(mine + WEXITSTATUS(status), 150);
  EXPECT_EQ(open_or_die(grant_)->keys("").value().size(), 150u);
}

}  // namespace
}  // namespace membrane::host
