#include "mcp/lines.h"

#include <gtest/gtest.h>

#include <vector>

namespace membrane::mcp {
namespace {

std::vector<std::string> lines_of(std::string_view bytes, size_t piece) {
  LineReader reader(5);
  std::vector<std::string> lines;
  const auto line = [&](std::string_view text) { lines.emplace_back(text); };
  const auto too_long = [&] { lines.emplace_back("(too long)"); };
  for (; !bytes.empty(); bytes.remove_prefix(std::min(piece, bytes.size())))
    reader.add(bytes.substr(0, piece), line, too_long);
  reader.finish(line, too_long);
  return lines;
}

TEST(Lines, AreTheSameHoweverTheirBytesCome) {
  const std::vector<std::string> expected = {"one", "five5", "(too long)", "two", "last"};
  for (size_t piece = 1; piece < 32; ++piece)
    EXPECT_EQ(lines_of("one\r\n\n  \nfive5\nsix666\ntwo\nlast", piece), expected) << piece;
}

TEST(Lines, ALastLineThatIsTooLongIsReportedOnce) {
  EXPECT_EQ(lines_of("666666", 1), std::vector<std::string>{"(too long)"});
  EXPECT_EQ(lines_of("", 1), std::vector<std::string>{});
}

}  // namespace
}  // namespace membrane::mcp
