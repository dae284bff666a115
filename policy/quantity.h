// Amounts as people write them: "64 MiB", "10 s", "2e9", "50_000_000".
//
//   count     digits, "_" between digits, a fraction, an exponent; a whole number in the end
//   size      a count and B, KiB to TiB or K to T (powers of 1024), or kB to TB (of 1000); bare: bytes
//   duration  a count and ms, s, min, m, h or d, or several; never bare, since nobody can tell which was meant
//
// Parsing is exact: no double is involved, and a value that does not fit in 64 bits or is not a whole number of the
// unit is refused.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace membrane::policy {

enum class Quantity : uint8_t { kCount, kSize, kDuration };  // in units, bytes, ms

Result<uint64_t> parse_count(std::string_view text);
Result<uint64_t> parse_size_bytes(std::string_view text);
Result<uint64_t> parse_duration_ms(std::string_view text);
Result<uint64_t> parse_quantity(Quantity kind, std::string_view text);  // by kind

// The shortest exact form, which parses back to the same number: "64 MiB", "1000 B"; "10 s", "1500 ms".
std::string format_size(uint64_t bytes);
std::string format_duration(uint64_t ms);
// For sentences: "50,000,000"; with a noun "50,000,000 rows", "1 row".
std::string format_count(uint64_t count);
std::string format_count(uint64_t count, std::string_view noun);
std::string format_quantity(Quantity kind, uint64_t value);

// RFC 3339 in UTC, "2000-01-01T00:00:00Z" or with three digits of milliseconds; years 0000 to
// 9999. In ms since 1970.
Result<int64_t> parse_time_ms(std::string_view text);
std::string format_time(int64_t ms);

}  // namespace membrane::policy
