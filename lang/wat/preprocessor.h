// The preprocessor: expands WAT with convenience forms to plain WAT (docs/wat.md).
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

// Addresses below this are left to the program, unless its own data segments reach further: string literals,
// followed by the host's heap, come later.
inline constexpr uint32_t kScratchBytes = 1024;

// The functions that a run may start with, in order of precedence. The first that exists gets an export if the
// module exports no function and has no start function.
inline constexpr std::string_view kEntries[] = {"_start", "run", "main"};

// Expands all forms. The Expansion is not `changed` when there are none. Its text keeps the lines of the source:
// line n of one is line n of the other, up to the fields added at the end. Expanding an expansion changes nothing.
// Valid plain WAT is not changed, except for what the host looks for: the export of its memory, if it calls the
// host, and that of its entry.
//
// Time and memory are linear in the text.
std::expected<Expansion, std::vector<Diagnostic>> expand(std::string_view source, const HostTable& host);

}  // namespace membrane::lang
