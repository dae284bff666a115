// The names of resources:
//
//   membrane://policy                            what is granted, in sentences
//   membrane://sessions                          the sessions, as JSON
//   membrane://reports/REPORT                    a report, as JSON
//   membrane://sessions/SESSION/files/PATH       a file of a session; PATH is percent-encoded
//
// Threads: pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace membrane::mcp {

enum class Place : uint8_t { kPolicy, kSessions, kReport, kFile };

struct ResourceName {
  Place place = Place::kPolicy;
  std::string id = {};    // of the report or session
  std::string path = {};  // of a file: absolute
};

inline constexpr size_t kMaxUriBytes = 8u << 10;

std::string uri_of(const ResourceName& name);
// Nothing if it is not one of them.
std::optional<ResourceName> read_uri(std::string_view uri);

}  // namespace membrane::mcp
