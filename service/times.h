// Times in JSON.
//
// Threads: pure.
#pragma once

#include <cstdint>
#include <string>

namespace membrane::service {

// RFC 3339 in UTC, to the millisecond: "2026-07-28T09:30:00.125Z". From milliseconds since 1970.
std::string iso_time(int64_t ms);

// By the system's clock, since 1970.
int64_t system_now_ms();

}  // namespace membrane::service
