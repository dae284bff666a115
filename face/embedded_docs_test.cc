// docs/embedded-sessions.md says what grants and limits there are.

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "policy/policy.h"
#include "policy/quantity.h"

namespace membrane {
namespace {

// The cells of each row of the table whose heading begins so.
std::vector<std::vector<std::string>> table(const std::string& heading) {
  std::ifstream in(MEMBRANE_SOURCE_DIR "/docs/embedded-sessions.md");
  std::vector<std::vector<std::string>> rows;
  bool is_in = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(heading)) is_in = true;
    else if (!line.starts_with("| ")) is_in = false;
    else if (is_in && !line.starts_with("| ---")) {
      std::istringstream cells(line.substr(2));
      rows.emplace_back();
      for (std::string cell; std::getline(cells, cell, '|');)
        rows.back().push_back(
            cell.substr(cell.starts_with(' '), cell.find_last_not_of(' ') + 1 - cell.starts_with(' ')));
    }
  }
  return rows;
}

std::string word(const std::string& cell) { return cell.substr(1, cell.find('`', 1) - 1); }

TEST(EmbeddedDocs, NameEachLimitWithItsDefault) {
  std::map<std::string, std::string> said, known;
  for (const auto& row : table("| limit |")) {
    said[word(row.at(0))] = row.at(2);
    policy::Limits limits;
    EXPECT_TRUE(policy::set_limit(limits, word(row.at(0)),
                                  word(row.at(1)).starts_with('"')
                                      ? word(row.at(1)).substr(1, word(row.at(1)).size() - 2)
                                      : word(row.at(1))))
        << row.at(1);
  }
  const policy::Limits limits = policy::language_limits();
#define LIMIT(member, name, kind, least, most, what)                            \
  known[name] = policy::format_quantity(policy::Quantity::kind, limits.member);
#define LINUX_LIMIT(member, name, kind, least, most, what)
#include "policy/limits.def"
#undef LIMIT
  EXPECT_EQ(said, known);
}

TEST(EmbeddedDocs, NameEachGrant) {
  std::set<std::string> kinds;
  for (const auto& row : table("| grant |")) {
    const std::string grant = word(row.at(0));
    kinds.insert(grant.substr(0, grant.find(':')));
    policy::Policy policy;
    EXPECT_TRUE(policy::allow(policy, grant)) << grant;
  }
  EXPECT_EQ(kinds, (std::set<std::string>{"ai", "ask", "fs", "http", "kv", "random", "sql", "time"}));
}

}  // namespace
}  // namespace membrane
