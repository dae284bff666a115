// A policy file's text as a tree, independent of whether it was TOML or JSON.
//
// Bounded: at most kMaxDocumentBytes of text, kMaxDepth levels. A repeated key in a table is an error in both forms.
// Dates and null have no use in a policy and are refused.
//
// Threads: values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

namespace membrane::policy {

inline constexpr size_t kMaxDocumentBytes = 1 << 20;
inline constexpr size_t kMaxDepth = 16;

struct Node;
struct Entry;
using Array = std::vector<Node>;
using Table = std::vector<Entry>;  // in the order of the text

struct Node {
  std::variant<bool, int64_t, uint64_t, double, std::string, Array, Table> value;
  uint32_t line = 0;  // 1-based; 0 if the reader does not report lines (JSON)
};

struct Entry {
  std::string name;
  Node value;
};

std::string_view type_of(const Node& node);  // "a string", "a table", …

// The root is always a table. Errors have the line, but not the file's name.
Result<Node> parse_toml(std::string_view text);
Result<Node> parse_json(std::string_view text);

}  // namespace membrane::policy
