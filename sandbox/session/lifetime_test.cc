// Many sandboxes in one process leave nothing allocated or open, however they end.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/sanitized_testing.h"
#include "sandbox/run/sandbox.h"

namespace membrane::sandbox {
namespace {

constexpr int kSandboxes = kIsSanitized ? 2'000 : 100'000, kWarmUp = kIsSanitized ? 500 : 1'000;
constexpr bool kMeasuresMemory = !kIsSanitized;  // a sanitizer delays freeing

struct Held {
  long threads = 0, descriptors = 0, mappings = 0, resident_bytes = 0;
};

long entries_of(const char* directory) {
  const std::filesystem::directory_iterator all(directory);
  return std::distance(begin(all), end(all));
}

Held measure() {
  Held held{entries_of("/proc/self/task"), entries_of("/proc/self/fd"), 0, 0};
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) ++held.mappings;
  std::ifstream statm("/proc/self/statm");
  long pages = 0;
  statm >> pages >> held.resident_bytes;
  held.resident_bytes *= sysconf(_SC_PAGESIZE);
  return held;
}

struct Life {
  const char* text;
  Outcome outcome;
};

constexpr Life kLives[] = {
    {"(module (func (export \"run\") (result i32) (i32.const 1)))", Outcome::kOk},
    {"(module (memory 1) (func (export \"run\") (result i32) (i32.load (i32.const 65536))))",
     Outcome::kTrapped},
    {"(module (func (export \"run\") (loop $l (br $l))))", Outcome::kOutOfFuel},
    {"(module (memory 1) (func (export \"run\") (drop (memory.grow (i32.const 8))) (i32.store (i32.const "
     "524288) (i32.const 1))))",
     Outcome::kOk},
    {"(module (memory (export \"memory\") 1) (func (export \"run\") (drop (call $http.get! (string "
     "\"https://example.org/\")))))",
     Outcome::kDenied},
    {"(module (memory (export \"memory\") 1) (func (export \"run\") (call $kv.set! (string \"k\") (string "
     "\"v\")) "
     "(call $io.print (call $kv.get! (string \"k\")))))",
     Outcome::kOk},
    {"(module (func (export \"run\") (result i64) (i32.const 1)))", Outcome::kInvalid},
};

void live(int count) {
  RunOptions options;
  options.policy.kv.emplace();
  options.policy.limits.fuel = 2'000;
  int wrong = 0;
  for (int i = 0; i < count; ++i) {
    const Life& chosen = kLives[static_cast<size_t>(i) % std::size(kLives)];
    Program program;
    program.source = chosen.text;
    wrong += run(program, options).outcome != chosen.outcome;
  }
  EXPECT_EQ(wrong, 0);
}

TEST(Lifetime, ManySandboxesLeaveNothingBehind) {
  live(kWarmUp);
  const Held before = measure();
  live(kSandboxes);
  const Held after = measure();
  EXPECT_EQ(after.threads, before.threads);
  EXPECT_EQ(after.descriptors, before.descriptors);
  if (!kMeasuresMemory) return;
  EXPECT_LE(after.mappings, before.mappings + 8) << "the allocator's own come and go";
  EXPECT_LE(after.resident_bytes, before.resident_bytes + (2 << 20)) << "20 bytes a sandbox would be seen";
}

}  // namespace
}  // namespace membrane::sandbox
