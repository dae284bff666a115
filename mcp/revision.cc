#include "mcp/revision.h"

#include <array>

namespace membrane::mcp {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25",
                                                    "2026-07-28"};

}  // namespace

std::string_view name_of(Revision revision) { return kNames[static_cast<size_t>(revision)]; }

std::optional<Revision> find_revision(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == name) return static_cast<Revision>(i);
  return std::nullopt;
}

std::vector<Revision> stateless_revisions() {
  std::vector<Revision> found;
  for (size_t i = 0; i < kNames.size(); ++i)
    if (const auto revision = static_cast<Revision>(i); is_stateless(revision)) found.push_back(revision);
  return found;
}

}  // namespace membrane::mcp
