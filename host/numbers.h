// Numbers in the form that programs print and read: decimal, the same on every machine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "host/errno.h"

namespace membrane::host {

// The shortest decimal that parses back to the same number: "0.1", "3", "1e+30", "-0", "inf", "-inf", "nan"
// (whatever the sign and payload).
std::string decimal_of(double value);
// With exactly `decimals` (0 to 20) digits after the point, rounded half to even.
std::string decimal_of(double value, int decimals);

// The whole of `text`, without surrounding ASCII white space, as a number with an optional "+" or "-". EINVAL when
// it is not a number or is out of range.
HostResult<int32_t> parse_i32(std::string_view text);
HostResult<int64_t> parse_i64(std::string_view text);
HostResult<double> parse_f64(std::string_view text);  // also "1e3", "inf", "nan"

// Without ASCII white space (space, tab, line feed, carriage return, form feed, vertical tab) at either end.
std::string_view trimmed(std::string_view text);

}  // namespace membrane::host
