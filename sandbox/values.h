// Values as text: arguments of `--invoke`, results in a report.
//
// Threads: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "engine/instance/value.h"
#include "sandbox/report.h"

namespace membrane::sandbox {

// Integers in decimal or hexadecimal (0x…), signed or unsigned, with "_" between digits; floats in any form of C,
// "inf" and "nan". Errors: kInvalidArgument, with the type and its range.
Result<engine::Value> parse_value(wasm::ValType type, std::string_view text);

// Integers as signed; floats in the shortest form that parses back to the same bits; "nan:0x…" with its payload when
// it is not the canonical NaN; references "null" or "ref".
ReportValue show_value(const engine::Value& value);

}  // namespace membrane::sandbox
