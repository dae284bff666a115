// Time zones by name, for programs whose embedder chooses one: from this machine's time zone database (tzdata).
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

// `name`: in the IANA database, which is searched in $TZDIR, else in the usual directories; "UTC"; or an offset,
// "+02:00". Errors: kInvalidArgument for an invalid name, kNotFound for a name that the database does not have, or
// without a database.
Result<TimeZone> find_time_zone(std::string_view name);

}  // namespace membrane::host
