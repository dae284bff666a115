// The binary format of WebAssembly 3.0 (specification, chapter 5), both ways.
//
// What decode() checks is everything about a binary's form but the inside of function bodies:
// those are walked once, by validate(), which reports their malformedness (an illegal opcode, a
// bad integer, a missing `end`, data.drop without a data count section) with the codes for which
// is_malformed() is true. So "malformed" in the sense of the specification is: decode() fails, or
// validate() fails with such a code.
//
// Places of these diagnostics are byte offsets into the binary.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <expected>
#include <span>
#include <vector>

#include "base/diagnostic.h"
#include "wasm/module.h"

namespace membrane::wasm {

// Makes a Module that owns a copy of `binary`. Memory taken is proportional to the binary's size,
// whatever its counts claim. At most kMaxModuleBytes (limits.h).
//
// A "name" section goes to Module::names; as a custom section it cannot make a module fail, so a
// malformed one is dropped silently. Every other custom section is kept as it is.
std::expected<Module, Diagnostic> decode(std::span<const uint8_t> binary);
// The same for a binary whose ownership the caller passes: nothing is copied.
std::expected<Module, Diagnostic> decode(std::vector<uint8_t>&& binary);

// The functions of a binary, as an earlier decode() found them: the members of Module with these
// names.
struct KnownFunctions {
  MappedVector<Function> functions;
  MappedVector<LocalRun> local_runs;
};
// decode() for a binary that was decoded before: neither its functions nor its names are read until a caller
// asks for one, so that loading a hundred megabytes takes less than a millisecond. `known` is trusted.
std::expected<Module, Diagnostic> decode_known(std::shared_ptr<const FileMapping> binary,
                                               const KnownFunctions& known);

// Writes the canonical binary of `module`: what the text format can say decides every byte, so
// that text -> binary -> text -> binary comes back to the same bytes, and encode(decode(b)) is
// stable. In particular, whatever form the module was read from:
//  - integers (sizes, indices, immediates) have their shortest form; empty sections are left out;
//  - neighbouring runs of locals of one type are one run;
//  - an element segment has the least flags (0..7) that express it, a data segment likewise;
//  - the data count section is there exactly when code names a data segment (memory.init, data.drop, …);
//  - the name section, when there are names, comes last; other custom sections follow
//    the section that they followed.
// The module need not be valid: a body that cannot be decoded is written as it is.
std::vector<uint8_t> encode(const Module& module);

// Whether a diagnostic of decode() or validate() says that the bytes are not in the binary format
// at all ("malformed"), rather than that the module breaks a rule of validation ("invalid").
bool is_malformed(DiagnosticCode code);

}  // namespace membrane::wasm
