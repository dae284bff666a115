// The supported revisions of the Model Context Protocol.
//
// Earlier revisions than 2026-07-28 begin with a handshake (initialize), whose result applies to the
// connection. From 2026-07-28 on there is no handshake: each request names its revision itself.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace membrane::mcp {

// In chronological order.
enum class Revision : uint8_t { k2024_11_05, k2025_03_26, k2025_06_18, k2025_11_25, k2026_07_28 };

inline constexpr Revision kLatestWithHandshake = Revision::k2025_11_25;
// The revision of an HTTP request without the header MCP-Protocol-Version.
inline constexpr Revision kWithoutHeader = Revision::k2025_03_26;

std::string_view name_of(Revision revision);  // "2026-07-28"
std::optional<Revision> find_revision(std::string_view name);

constexpr bool is_stateless(Revision revision) { return revision >= Revision::k2026_07_28; }
// The revisions that a request can name by itself.
std::vector<Revision> stateless_revisions();

}  // namespace membrane::mcp
