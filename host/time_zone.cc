#include "host/time_zone.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <vector>

namespace membrane::host {
namespace {

constexpr size_t kMostBytes = 64u << 10;  // zones have a few thousand
constexpr size_t kMostName = 100;

// -- the format (RFC 8536, section 3) -------------------------------------------------------

constexpr size_t kHeaderBytes = 44;

uint64_t count_at(std::string_view bytes, size_t at) {
  uint64_t count = 0;
  for (size_t i = 0; i < 4; ++i) count = count << 8 | static_cast<uint8_t>(bytes[at + i]);
  return count;
}

// The length of the block whose header is at `at`; nothing if there is no header.
std::optional<uint64_t> bytes_of_block(std::string_view bytes, size_t at, uint64_t bytes_of_time) {
  if (bytes.size() < at + kHeaderBytes || bytes.substr(at, 4) != "TZif" || bytes[at + 4] < '2')
    return std::nullopt;
  const auto count = [&](size_t index) { return count_at(bytes, at + 20 + 4 * index); };
  const uint64_t ut = count(0), standard = count(1), leaps = count(2), times = count(3), types = count(4),
                 characters = count(5);
  if (types == 0 || types > 256) return std::nullopt;
  return kHeaderBytes + times * (bytes_of_time + 1) + types * 6 + characters + leaps * (bytes_of_time + 4) +
         standard + ut;
}

bool is_tzif(std::string_view bytes) {
  const auto first = bytes_of_block(bytes, 0, 4);
  if (!first || *first > bytes.size()) return false;
  const auto second = bytes_of_block(bytes, *first, 8);
  if (!second || *first + *second + 2 > bytes.size()) return false;
  return bytes[*first + *second] == '\n' && bytes.back() == '\n';
}

// A zone with one offset.
std::string fixed_tzif(int32_t offset_s, std::string_view abbreviation, const std::string& footer) {
  std::string block = "TZif2" + std::string(15, '\0');
  const auto put = [&](uint32_t number) {
    for (int shift = 24; shift >= 0; shift -= 8) block += static_cast<char>(number >> shift & 0xFF);
  };
  const auto characters = static_cast<uint32_t>(abbreviation.size() + 1);
  for (const uint32_t count : {0u, 0u, 0u, 0u, 1u, characters}) put(count);
  put(static_cast<uint32_t>(offset_s));
  block += std::string(2, '\0') + std::string(abbreviation) + '\0';
  return block + block + "\n" + footer + "\n";
}

// -- names ----------------------------------------------------------------------------------

// "+02:00"
std::optional<TimeZone> fixed_zone(std::string_view name) {
  if (name == "UTC") return TimeZone{"UTC", fixed_tzif(0, "UTC", "UTC0")};
  const auto digit = [&](size_t at) { return name[at] >= '0' && name[at] <= '9'; };
  if (name.size() != 6 || (name[0] != '+' && name[0] != '-') || !digit(1) || !digit(2) || name[3] != ':' ||
      !digit(4) || !digit(5))
    return std::nullopt;
  const int hours = (name[1] - '0') * 10 + (name[2] - '0'), minutes = (name[4] - '0') * 10 + (name[5] - '0');
  if (hours > 23 || minutes > 59) return std::nullopt;
  const bool is_west = name[0] == '-';
  const int32_t offset_s = (is_west ? -1 : 1) * (hours * 3600 + minutes * 60);
  std::string abbreviation(name.substr(0, 3));
  if (minutes != 0) abbreviation += name.substr(4);
  // POSIX offsets are positive to the west.
  const std::string footer = "<" + abbreviation + ">" + (is_west ? "" : "-") + std::string(name.substr(1));
  return TimeZone{std::string(name), fixed_tzif(offset_s, abbreviation, footer)};
}

bool is_name(std::string_view name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '+' || c == '/';
  };
  return !name.empty() && name.size() <= kMostName && std::ranges::all_of(name, fits) &&
         name.front() != '/' && name.back() != '/';
}

std::vector<std::filesystem::path> directories() {
  if (const char* const given = std::getenv("TZDIR"); given != nullptr && *given != '\0') return {given};
  return {"/usr/share/zoneinfo", "/usr/lib/zoneinfo", "/usr/share/lib/zoneinfo", "/etc/zoneinfo"};
}

std::optional<std::string> content_of(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return std::nullopt;
  std::ifstream in(path, std::ios::binary);
  std::string bytes(kMostBytes + 1, '\0');
  in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<size_t>(in.gcount()));
  return bytes;
}

}  // namespace

Result<TimeZone> find_time_zone(std::string_view name) {
  if (auto fixed = fixed_zone(name)) return *std::move(fixed);
  if (!is_name(name))
    return fail(ErrorCode::kInvalidArgument, "\"" + std::string(name) + "\" is not a valid time zone name",
                "Give a name such as Europe/Berlin, UTC, or an offset such as +02:00.");
  bool has_database = false;
  for (const std::filesystem::path& directory : directories()) {
    std::error_code error;
    if (!std::filesystem::is_directory(directory, error)) continue;
    has_database = true;
    const auto bytes = content_of(directory / name);
    if (bytes && bytes->size() <= kMostBytes && is_tzif(*bytes)) return TimeZone{std::string(name), *bytes};
  }
  if (has_database)
    return fail(ErrorCode::kNotFound, "there is no time zone \"" + std::string(name) + "\"",
                "Use a name such as Europe/Berlin, UTC, or an offset such as +02:00.");
  return fail(ErrorCode::kNotFound,
              "this machine has no database of time zones to find \"" + std::string(name) + "\" in",
              "Install tzdata, set TZDIR to its directory, or give an offset such as +02:00.");
}

}  // namespace membrane::host
