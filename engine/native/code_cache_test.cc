// Code that is kept in files: found again, and made again when the file is not what it was.
#include "engine/native/code_cache.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "engine/execution/module.h"
#include "engine/native/compiler.h"
#include "engine/testing/call_testing.h"
#include "wasm/binary.h"
#include "wasm/text/parser.h"

namespace membrane::engine::native {
namespace {

namespace fs = std::filesystem;

class CodeCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!machine_is_supported()) GTEST_SKIP() << "this machine has no compiler";
    directory_ = ::testing::TempDir() + "membrane-code-XXXXXX";
    ASSERT_NE(mkdtemp(directory_.data()), nullptr);
    auto opened = CodeCache::open(directory_);
    ASSERT_TRUE(opened) << opened.error().message;
    cache_.emplace(std::move(*opened));
  }
  void TearDown() override { fs::remove_all(directory_); }

  // A module with enough code to be kept; another for each number. Function 0 is the host's.
  static wasm::Module large(int number) {
    std::string text = "(module (import \"m\" \"f\" (func)) (table 1 funcref) (elem (i32.const 0) $last)";
    for (int i = 0; i < 400; ++i) {
      text += "(func $f" + std::to_string(i) + " (param i32 i32) (result i32)";
      text += "(i32.const " + std::to_string(i + number) + ")";
      for (int k = 0; k < 30; ++k)
        text += "(i32.add (local.get 0)) (i32.xor (local.get 1)) (i32.const 3) i32.mul";
      text += ")";
    }
    text += R"((func $last (param i32 i32) (result i32) (call $f399 (local.get 0) (local.get 1)))
      (func (export "run") (param i32) (result i32)
        (call_indirect (param i32 i32) (result i32) (local.get 0) (call $f7 (local.get 0) (i32.const 9)) (i32.const 0)))
      (func (export "trap") (unreachable))))";
    const auto parsed = wasm::parse_text(text);
    EXPECT_TRUE(parsed);
    auto decoded = wasm::decode(wasm::encode(*parsed));
    EXPECT_TRUE(decoded);
    return std::move(*decoded);
  }
  struct Seen {
    uint32_t result;
    uint64_t fuel;
    std::string trap;
    bool operator==(const Seen&) const = default;
  };
  Seen run(const wasm::Module& module, bool with_cache = true, Tier tier = Tier::kCompiler) {
    auto compiled = compile_module(module, {}, tier, with_cache ? &*cache_ : nullptr);
    EXPECT_TRUE(compiled);
    Store store;
    FunctionInstance* const host =
        store.add_host_function({}, [](HostCall&) { return HostAction::kContinue; });
    const Resolver resolver = [&](const wasm::Module&, const wasm::Import&) {
      return Extern{wasm::ExternKind::kFunc, host, nullptr, nullptr, nullptr};
    };
    const auto instance = store.instantiate(*compiled, resolver, {});
    EXPECT_TRUE(instance);
    const Ended ended = call(**instance, "run", {Value::i32(5)});
    return {static_cast<uint32_t>(ended.results.at(0)), ended.fuel, call(**instance, "trap").trap};
  }
  [[nodiscard]] std::string path(const wasm::Module& module) const { return cache_->path_of(module).value(); }
  static std::string content(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void write(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }

  std::string directory_;
  std::optional<CodeCache> cache_;
};

TEST_F(CodeCacheTest, ModulesAreFoundAgainAndRunAlike) {
  const wasm::Module first = large(1), second = large(2);
  const Seen expected = run(first, false), other = run(second, false);
  EXPECT_NE(expected.result, other.result);
  EXPECT_FALSE(cache_->find(first));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(run(first), expected);
    EXPECT_EQ(run(second), other);
    EXPECT_EQ(run(first, true, Tier::kAuto), expected);
    EXPECT_EQ(run(first, true, Tier::kInterpreter), expected);
    const auto found = cache_->find(first);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->indices.front(), 1u);
    EXPECT_EQ(found->indices.size(), 403u);
  }
  EXPECT_NE(path(first), path(second));
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_), {}), 2);
}

TEST_F(CodeCacheTest, ADamagedFileIsMadeAgain) {
  const wasm::Module module = large(1);
  const Seen expected = run(module);
  const std::string whole = content(path(module));
  ASSERT_GT(whole.size(), CodeCache::kLeastCodeBytes);
  std::vector<std::string> damaged = {"", "x", whole.substr(0, 50), whole.substr(0, whole.size() - 1),
                                      whole + "x"};
  for (size_t at = 0; at < 3400; at += at < 120 ? 1 : 97) {  // the header, and through the tables
    damaged.push_back(whole);
    damaged.back()[at] ^= 1;
  }
  for (const size_t at : {size_t{65536}, whole.size() / 2, whole.size() - 1}) {
    damaged.push_back(whole);
    damaged.back()[at] ^= 0x40;
  }
  for (size_t i = 0; i < damaged.size(); ++i) {
    write(path(module), damaged[i]);
    EXPECT_FALSE(cache_->find(module)) << i;
    if (i % 16 != 0) continue;
    EXPECT_EQ(run(module), expected) << i;
    EXPECT_EQ(content(path(module)), whole) << i;
  }
}

TEST_F(CodeCacheTest, TheFileOfAnotherModuleIsNotUsed) {
  const wasm::Module first = large(1), second = large(2);
  const Seen expected = run(first);
  run(second);
  fs::copy_file(path(second), path(first), fs::copy_options::overwrite_existing);
  EXPECT_FALSE(cache_->find(first));
  EXPECT_EQ(run(first), expected);
}

TEST_F(CodeCacheTest, WhatOthersMayWriteIsNotUsed) {
  const wasm::Module module = large(1);
  run(module);
  ASSERT_TRUE(cache_->find(module));
  ASSERT_EQ(chmod(path(module).c_str(), 0620), 0);
  EXPECT_FALSE(cache_->find(module));
  fs::rename(path(module), directory_ + "/elsewhere");
  ASSERT_EQ(chmod((directory_ + "/elsewhere").c_str(), 0600), 0);
  fs::create_symlink(directory_ + "/elsewhere", path(module));
  EXPECT_FALSE(cache_->find(module)) << "a link";
  fs::remove(path(module));
  fs::create_directory(path(module));
  EXPECT_FALSE(cache_->find(module)) << "a directory";
}

TEST_F(CodeCacheTest, ADirectoryThatOthersMayWriteToIsRefused) {
  ASSERT_EQ(chmod(directory_.c_str(), 0777), 0);
  const auto refused = CodeCache::open(directory_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(refused.error().hint.find("chmod"), std::string::npos);
  write(directory_ + "/file", "");
  EXPECT_FALSE(CodeCache::open(directory_ + "/file"));
  EXPECT_FALSE(CodeCache::open("/proc/membrane"));
  ASSERT_EQ(chmod(directory_.c_str(), 0700), 0);
  const auto made = CodeCache::open(directory_ + "/a/b");
  ASSERT_TRUE(made);
  struct stat status{};
  ASSERT_EQ(stat((directory_ + "/a/b").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
}

TEST_F(CodeCacheTest, ADirectoryThatIsGoneIsNoError) {
  const wasm::Module module = large(1);
  const Seen expected = run(module, false);
  fs::remove_all(directory_);
  EXPECT_EQ(run(module), expected);
}

TEST_F(CodeCacheTest, SmallModulesAndTextAreNotKept) {
  const auto text = wasm::parse_text("(module (import \"m\" \"f\" (func)))");
  EXPECT_EQ(cache_->path_of(*text).error().code, ErrorCode::kUnsupported);
  const auto small = wasm::decode(wasm::encode(*wasm::parse_text("(module (func (export \"run\")))")));
  ASSERT_TRUE(compile_module(*small, {}, Tier::kCompiler, &*cache_));
  EXPECT_TRUE(fs::is_empty(directory_));
}

TEST_F(CodeCacheTest, IsSharedByThreadsInParallel) {
  const wasm::Module first = large(1), second = large(2);
  const Seen expected = run(first, false), other = run(second, false);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 4; ++i) {
        if (run(first) != expected) ++wrong;
        if (run(second) != other) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace membrane::engine::native
