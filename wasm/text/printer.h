// A module as text: flat WAT, one instruction a line, that parse_text() reads back to a module
// which encode() writes to the same bytes, provided that the module validates.
//
// Names that are unique in their index space are printed as $names, in quotes where they are no identifiers;
// other things, and those with names of more than 256 bytes, go by their index, which each definition has as a comment.
// Floats are hexadecimal, so that they are exact, with the decimal value as a comment. Custom sections other than "name"
// have no text form in WebAssembly 3.0: a comment says that they were there.
//
// Any Module may be given, also one that does not validate: what text cannot express (code that cannot be decoded, a
// hundred thousand locals) becomes a comment, and the size of the result stays proportional to that of the module: what
// would be more than 64 MiB and 32 bytes for each of the module's is left out.
//
// Threads: a pure function.
#pragma once

#include <string>

#include "wasm/module.h"

namespace membrane::wasm {

std::string print_text(const Module& module);

}  // namespace membrane::wasm
