// The preprocessor: WAT with the forms that authors want becomes plain WAT (docs/wat.md).
//
// Threads: expand() is pure; a thread keeps its buffers for the next call.
#pragma once

#include <expected>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "lang/wat/expansion.h"
#include "lang/wat/host_table.h"

namespace membrane::lang {

// Addresses below this are left to the program, unless its own data segments reach further:
// string literals, and the host's heap behind them, come later.
inline constexpr uint32_t kScratchBytes = 1024;

// The functions that a run begins with, in the order in which they are looked for. The first that
// there is gets an export when the module exports no function and has no start function.
inline constexpr std::string_view kEntries[] = {"_start", "run", "main"};

// Writes out all forms. An Expansion that is not `changed` when there is none. Its text keeps the
// lines of the source: line n of one is line n of the other, up to the fields that are added at the
// end. Expanding an expansion changes nothing. Plain WAT that is valid is not changed, but for what
// the host looks for: the export of its memory, when it calls the host, and that of its entry.
//
// Time and memory are linear in the text.
std::expected<Expansion, std::vector<Diagnostic>> expand(std::string_view source, const HostTable& host);

}  // namespace membrane::lang
