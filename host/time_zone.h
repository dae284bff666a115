// Time zones by name, for programs whose embedder chooses one: from this machine's database of them (tzdata).
//
// Threads: any.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace membrane::host {

struct TimeZone {
  std::string name;  // "Europe/Berlin", "UTC", "+02:00"
  std::string tzif;  // its rules, in the format of RFC 8536, version 2 or later
};

// `name`: of the IANA database, which is looked for in $TZDIR, else where systems have it; "UTC"; or an offset, "+02:00".
// Errors: kInvalidArgument for what is no such name, kNotFound for a name that the database does not have, or where there is none.
Result<TimeZone> find_time_zone(std::string_view name);

}  // namespace membrane::host
