// The levels of log messages, as named by MCP (RFC 5424). Threads: pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace membrane::mcp {

enum class LogLevel : uint8_t { kDebug, kInfo, kNotice, kWarning, kError, kCritical, kAlert, kEmergency };

inline constexpr std::array<std::string_view, 8> kLogLevelNames = {
    "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"};

constexpr std::string_view name_of(LogLevel level) { return kLogLevelNames[static_cast<size_t>(level)]; }

constexpr std::optional<LogLevel> find_log_level(std::string_view name) {
  for (size_t i = 0; i < kLogLevelNames.size(); ++i)
    if (kLogLevelNames[i] == name) return static_cast<LogLevel>(i);
  return std::nullopt;
}

}  // namespace membrane::mcp
