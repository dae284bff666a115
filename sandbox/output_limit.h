// The account of what leaves a sandbox: the output limit holds for every byte that the program chose, wherever in the
// report it stands.
//
// What a program prints, submits or gives to io.result is counted as it comes (Conversation), and ends the run when there
// is no more room. What a report has besides (the value of a cell, its displays with the names of their types, the
// results of an export, errors with their tracebacks, the names of files) is known at the end only: there is as much of
// it as the rest of the limit has room for.
//
//   not counted: what is Membrane's own and bounded by itself, as the records of host calls (their number and their
//   arguments are bounded), and kErrorBytes of errors, so that a report can always say how the run ended
//   counted once: a text that stands in two fields (`result` and the text/plain of `value`)
//
// Threads: pure.
#pragma once

#include <cstdint>

#include "sandbox/report.h"

namespace membrane::sandbox {

// Of errors, beyond the limit.
inline constexpr uint64_t kErrorBytes = 2048;

// Cuts `report` down to `limit_bytes`, and says in `output_bytes_cut` how much that took. Texts are cut after a whole
// character, other data is left out whole. A run that went well, but whose value, displays or results were cut, is out of
// output: nobody takes a part for the whole.
void limit_output(Report& report, uint64_t limit_bytes);

}  // namespace membrane::sandbox
