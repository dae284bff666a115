#include "computers/patch.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <random>

#include "base/sanitized_testing.h"
#include "base/zlib.h"
#include "computers/fake_computer_testing.h"
#include "computers/line_diff.h"

namespace membrane::computers {
namespace {

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) lines.push_back(take_line(text));
  return lines;
}

std::vector<LineChange> changes_of(std::string_view before, std::string_view after,
                                   const PatchLimits& limits = {}) {
  PatchBudget budget(limits);
  return line_changes(before, after, budget).value();
}

std::string applied_lines(const std::vector<LineChange>& changes, const std::vector<std::string_view>& before,
                          const std::vector<std::string_view>& after) {
  std::string text;
  size_t at = 0;
  for (const LineChange& each : changes) {
    for (; at < each.old_begin; ++at) text += before[at];
    for (size_t i = each.new_begin; i < each.new_end; ++i) text += after[i];
    at = each.old_end;
  }
  for (; at < before.size(); ++at) text += before[at];
  return text;
}

TEST(LineDiff, SaysTheFewestLines) {
  const auto changes = [](std::string_view a, std::string_view b) { return changes_of(a, b); };
  EXPECT_TRUE(changes("a\nb\n", "a\nb\n").empty());
  EXPECT_EQ(changes("a\nb\nc\n", "a\nx\nc\n"), (std::vector<LineChange>{{1, 2, 1, 2}}));
  EXPECT_EQ(changes("", "a\n"), (std::vector<LineChange>{{0, 0, 0, 1}}));
  EXPECT_EQ(changes("a", "a\n"), (std::vector<LineChange>{{0, 1, 0, 1}}));
  size_t lines = 0;  // Myers' own example: five of them
  for (const LineChange& each : changes("A\nB\nC\nA\nB\nB\nA\n", "C\nB\nA\nB\nA\nC\n"))
    lines += each.old_end - each.old_begin + each.new_end - each.new_begin;
  EXPECT_EQ(lines, 5u);
}

TEST(LineDiff, WhatItSaysMakesTheOneOfTheOther) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::string a, b;
    for (std::string* const text : {&a, &b})
      for (size_t left = random() % 12; left > 0; --left) {
        *text += static_cast<char>('a' + random() % 3);
        if (left > 1 || random() % 2 == 0) *text += '\n';
      }
    const auto before = lines_of(a), after = lines_of(b);
    EXPECT_EQ(applied_lines(changes_of(a, b), before, after), b);
  }
}

TEST(LineDiff, TextsThatHaveNothingInCommonCostLittle) {
  std::string a, b;
  for (int i = 0; i < 200'000; ++i) a += std::to_string(i) + "a\n", b += std::to_string(i) + "b\n";
  EXPECT_EQ(changes_of(a, b), (std::vector<LineChange>{{0, 200'000, 0, 200'000}}));
}

TEST(LineDiff, OnlyLinesBetweenTheFirstAndTheLastThatDifferCount) {
  const std::string same(10u << 20, '\n');
  EXPECT_EQ(changes_of(same + "a\nb\nc\n" + same, same + "x\nb\nz\n" + same),
            (std::vector<LineChange>{{10u << 20, (10u << 20) + 1, 10u << 20, (10u << 20) + 1},
                                     {(10u << 20) + 2, (10u << 20) + 3, (10u << 20) + 2, (10u << 20) + 3}}));
}

// One bound applies to all work of a patch; later changes are then written as a whole.
TEST(LineDiff, OneBoundIsForAllTexts) {
  std::string a = "z0\n" + std::string(100'000, '\n'), b = "y0\n" + std::string(100'000, '\n');
  for (int i = 0; i < 1'000; ++i) a += "z" + std::to_string(i) + "\n", b += "y" + std::to_string(i) + "\n";
  PatchBudget budget({.work = 1'000'000});
  EXPECT_EQ(line_changes("a\nb\nc\n", "x\nb\nz\n", budget)->size(), 2u);
  EXPECT_EQ(line_changes(a, b, budget), (std::vector<LineChange>{{0, 101'001, 0, 101'001}}));
  EXPECT_FALSE(budget.has_work());
  EXPECT_EQ(line_changes("a\nb\nc\n", "x\nb\nz\n", budget), (std::vector<LineChange>{{0, 3, 0, 3}}));
}

TEST(GitBase85, BytesComeBack) {
  std::mt19937 random(1);
  for (size_t size = 0; size < 60; ++size) {
    std::string bytes;
    while (bytes.size() < size) bytes += static_cast<char>(random());
    EXPECT_EQ(from_git_base85(git_base85(bytes), size), bytes);
  }
  EXPECT_FALSE(from_git_base85("~~~~~", 4));  // more than 32 bits
  EXPECT_FALSE(from_git_base85("0 000", 4));
  EXPECT_FALSE(from_git_base85("00000", 5));
}

TEST(GitDelta, CopiesAndInserts) {
  PatchBudget budget({.file_bytes = 1000});
  const auto delta = [&](std::string_view text) { return apply_git_delta("hello world", text, budget); };
  using namespace std::string_literals;
  EXPECT_EQ(delta("\x0b\x08\x91\x06\x05\x03!!!"s), "world!!!");
  for (const std::string& bad :
       {""s, "\x0b"s, "\x0a\x05\x91\x06\x05"s, "\x0b\x05\x91\x06\x06"s, "\x0b\x06\x91\x06\x05"s,
        "\x0b\x04\x91\x06\x05"s, "\x0b\x03\x03!"s, "\x0b\x03\x00"s, "\x0b\x05\x91\x06"s})
    EXPECT_FALSE(delta(bad));
  EXPECT_FALSE(apply_git_delta("", "\x00\xff\xff\xff\xff\x7f"s, budget));
}

class PatchTest : public ::testing::Test {
 protected:
  std::string apply(const std::string& patch, const std::string& directory = "/") {
    const auto applied = apply_patch(computer_, patch, directory);
    if (!applied) return applied.error().message;
    std::string text;
    for (const std::string& each : applied->changed) text += (text.empty() ? "" : " ") + each;
    return text;
  }
  std::string file(const std::string& path) {
    return computer_.read_file(path, 0, UINT64_MAX).value_or("none");
  }
  FakeComputer computer_{
      FakeComputer::Files{{"/repo/", ""}, {"/repo/text", "1\n2\n3\n4\n5\n6\n7\n"}, {"/repo/end", "a"}}};
};

TEST_F(PatchTest, ChangesAddsAndRemoves) {
  EXPECT_EQ(apply("A message.\n\ndiff --git a/text b/text\nindex 1..2 100644\n--- a/text\n+++ b/text\n@@ "
                  "-2,3 +2,3 @@ here\n"
                  " 2\n-3\n+three\n 4\ndiff --git a/new b/new\nnew file mode 100755\nindex 0..1\n--- "
                  "/dev/null\n+++ b/new\n"
                  "@@ -0,0 +1 @@\n+x\ndiff --git a/end b/end\ndeleted file mode 100644\n--- a/end\n+++ "
                  "/dev/null\n@@ -1 +0,0 @@\n"
                  "-a\n\\ No newline at end of file\n-- \n2.39\n",
                  "/repo"),
            "/repo/end /repo/new /repo/text");
  EXPECT_EQ(file("/repo/text"), "1\n2\nthree\n4\n5\n6\n7\n");
  EXPECT_EQ(file("/repo/new"), "x\n");
  EXPECT_EQ(file("/repo/end"), "none");
}

TEST_F(PatchTest, TakesPlainOnesAndLinesThatHaveMoved) {
  EXPECT_EQ(
      apply("--- a/repo/text\t2026-01-01\n+++ b/repo/text\t2026-01-01\n@@ -1,3 +1,3 @@\n 4\n-5\n+five\n 6\n"),
      "/repo/text");
  EXPECT_EQ(file("/repo/text"), "1\n2\n3\n4\nfive\n6\n7\n");
}

TEST_F(PatchTest, RenamesAndCopies) {
  EXPECT_EQ(apply("diff --git a/repo/text b/repo/other\nsimilarity index 90%\nrename from repo/text\nrename "
                  "to repo/other\n"
                  "--- a/repo/text\n+++ b/repo/other\n@@ -1,2 +1,2 @@\n-1\n+one\n 2\n"
                  "diff --git a/repo/end b/repo/twin\nsimilarity index 100%\ncopy from repo/end\ncopy to "
                  "repo/twin\n"),
            "/repo/other /repo/text /repo/twin");
  EXPECT_EQ(file("/repo/other").substr(0, 6), "one\n2\n");
  EXPECT_EQ(file("/repo/twin"), "a");
}

TEST_F(PatchTest, ABadHunkIsNamedAndNothingIsChanged) {
  const std::string good =
      "--- a/repo/end\n+++ b/repo/end\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n";
  const std::string told = apply(good + "--- a/repo/text\n+++ b/repo/text\n@@ -2,2 +2,2 @@\n 2\n-four\n+4\n");
  EXPECT_NE(told.find("repo/text, line 9 of the patch"), std::string::npos) << told;
  EXPECT_EQ(file("/repo/end"), "a");
  for (const std::string& bad :
       {good + "--- a/repo/nosuch\n+++ b/repo/nosuch\n@@ -1 +1 @@\n-a\n+b\n",
        good + "--- /dev/null\n+++ b/repo/text\n@@ -0,0 +1 @@\n+b\n",
        good + "--- a/repo/text\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-1\n",
        good + "--- a/../x\n+++ b/../x\n@@ -0,0 +1 @@\n+b\n",
        good + "--- a/repo//x\n+++ b/repo//x\n@@ -0,0 +1 @@\n+b\n", good + "@@ -1 +1 @@\n-a\n+b\n",
        good + "--- a/repo/text\n+++ b/repo/text\n@@ -1,9 +1,9 @@\n 1\n",
        good + "--- a/repo/text\n+++ b/repo/text\n",
        good + "--- a/repo/text\n+++ b/repo/text\n@@ -1 +1 @@\n*1\n",
        good + "diff --git a/repo/text b/repo/text\nnew mode 160000\n",
        good + "diff --git a/x b/x\nBinary files a/x and b/x differ\n", std::string("no patch")}) {
    EXPECT_FALSE(apply_patch(computer_, bad)) << bad;
    EXPECT_EQ(file("/repo/end"), "a");
  }
}

TEST_F(PatchTest, LinesThatRepeatCostLittle) {
  std::string text(1'000'000, '\n');
  EXPECT_TRUE(computer_.write_file("/many", text, 0644));
  std::string patch = "--- a/many\n+++ b/many\n";
  for (int i = 0; i < 200; ++i) {
    patch += "@@ -" + std::to_string(i * 10 + 1) + ",5001 +1,5000 @@\n";
    for (int line = 0; line < 5000; ++line) patch += " \n";
    patch += "-x\n";
  }
  EXPECT_NE(apply(patch).find("line 3 of the patch"), std::string::npos);
}

// One bound applies to everything that a patch names, reads and makes, and it is counted before memory is
// allocated.
TEST_F(PatchTest, AllFilesCountBeforeTheyAreMade) {
  EXPECT_TRUE(computer_.write_file("/repo/base", std::string(0x10000, '\0'), 0644));
  using namespace std::string_literals;
  std::string delta =
      "\x80\x80\x04\x80\x80\x80\x08"s + std::string(0x1000000 / 0x10000, '\x80');  // 16 MiB of 64 KiB
  const std::string compressed = compress_bytes(delta).value();
  ASSERT_LE(compressed.size(), 26u);
  const std::string patch = "diff --git a/repo/base b/repo/base\nGIT binary patch\ndelta " +
                            std::to_string(delta.size()) + "\n" +
                            static_cast<char>('A' + compressed.size() - 1) + git_base85(compressed) + "\n\n";
  uint64_t held = 0, most = 0;
  PatchLimits limits = {.memory = {.take = [&](uint64_t bytes) -> Status {
                                     if (held + bytes > 8u << 20) return fail(ErrorCode::kExhausted, "full");
                                     held += bytes;
                                     most = std::max(most, held);
                                     return {};
                                   },
                                   .give = [&](uint64_t bytes) { held -= bytes; }}};
  EXPECT_EQ(apply_patch(computer_, patch, "/", limits).error().message, "full");
  EXPECT_EQ(held, 0u);
  EXPECT_GE(most, 0x10000u);
  limits.memory = {};
  limits.file_bytes = 0x1000000;  // with the old one it is too much
  EXPECT_EQ(apply_patch(computer_, patch, "/", limits).error().code, ErrorCode::kTooLong);
  EXPECT_EQ(file("/repo/base").size(), 0x10000u);
  limits.file_bytes = 0x1020000;
  const auto applied = apply_patch(computer_, patch, "/", limits);
  EXPECT_TRUE(applied) << applied.error().to_string();
  EXPECT_EQ(file("/repo/base").size(), 0x1000000u);
}

TEST_F(PatchTest, LinesTakeNoMemory) {
  constexpr size_t kLines = (kIsSanitized ? 1u : 8u) << 20;
  const std::string count = std::to_string(kLines), text(kLines, '\n');
  EXPECT_TRUE(computer_.write_file("/many", text, 0644));
  const std::string patch = "--- a/many\n+++ b/many\n@@ -1," + count + " +1," + std::to_string(kLines + 1) +
                            " @@\n" + text + "+x\n";
  const auto peak_kib = [] {
    rusage usage = {};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  };
  const long before = peak_kib();
  EXPECT_EQ(apply(patch), "/many");
  EXPECT_TRUE(kIsSanitized || peak_kib() - before < 64 << 10);
  EXPECT_EQ(file("/many"), text + "x\n");
}

TEST_F(PatchTest, OneBoundIsForTheWorkOfAllFiles) {
  EXPECT_TRUE(computer_.write_file("/many", std::string(20'000, '\n') + "x\n\n", 0644));
  std::string patch;
  for (int i = 0; i < 10; ++i) {
    patch += "--- a/many\n+++ b/many\n@@ -1,2002 +1,2002 @@\n";
    for (int line = 0; line < 2000; ++line) patch += " \n";
    patch += i % 2 == 0 ? "-x\n+y\n \n" : "-y\n+x\n \n";
  }
  EXPECT_NE(apply(patch).find("it takes too long to find where the hunk belongs"), std::string::npos);
  EXPECT_TRUE(file("/many").ends_with("x\n\n"));
}

TEST_F(PatchTest, NamesInQuotes) {
  EXPECT_EQ(
      apply("diff --git \"a/\\303\\244 \\\"x\" \"b/\\303\\244 \\\"x\"\nnew file mode 100644\n--- /dev/null\n"
            "+++ \"b/\\303\\244 \\\"x\"\n@@ -0,0 +1 @@\n+y\n"),
      "/\xc3\xa4 \"x");
}

TEST_F(PatchTest, AFileThatCannotBeWrittenTakesAllBack) {
  // The fake one has no links.
  const std::string told = apply(
      "--- a/repo/end\n+++ b/repo/end\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n"
      "diff --git a/repo/z b/repo/z\nnew file mode 120000\n--- /dev/null\n+++ b/repo/z\n@@ -0,0 +1 @@\n"
      "+to\n\\ No newline at end of file\n");
  EXPECT_NE(told.find("links"), std::string::npos) << told;
  EXPECT_EQ(file("/repo/end"), "a");
}

}  // namespace
}  // namespace membrane::computers
