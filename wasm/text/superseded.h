// Commands of the official suite of WebAssembly 2.0 whose outcome WebAssembly 3.0 changed: what was
// malformed or invalid, and is not any more. The engine follows 3.0; a caller that runs the older suite
// asks here about a command that fails. docs/specification.md lists them, too.
//
// Threads: pure functions of constant data.
#pragma once

#include <cstdint>
#include <string_view>

namespace membrane::wasm {

// The rule of 3.0 that makes the command at `line` of `file` ("data.wast") fail, in words; empty when
// there is none. `message` is what the command expects, so that lines of another version of the
// suite are not taken for these.
std::string_view superseded_by(std::string_view file, uint32_t line, std::string_view message);

}  // namespace membrane::wasm
