// Accounts for what leaves a sandbox: the output limit applies to every byte that the program chose, anywhere in the
// report.
//
// What a program prints, submits or gives to io.result is counted as it arrives (Conversation), and ends the run
// when there is no more room. The rest of a report (the value of a cell, its displays with the names of their types,
// the results of an export, errors with their tracebacks, the names of files) is known only at the end, and is cut
// to the rest of the limit.
//
//   not counted: what is Membrane's own and bounded by itself, as the records of host calls (their number and their
//   arguments are bounded), and kErrorBytes of errors, so that a report can always say how the run ended
//   counted once: a text that is in two fields (`result` and the text/plain of `value`)
//   counted as written: output that is not UTF-8, whose text in the report has U+FFFD, three bytes for one
//
// Threads: pure.
#pragma once

#include <cstdint>

#include "sandbox/report/report.h"

namespace membrane::sandbox {

// For errors, in addition to the limit.
inline constexpr uint64_t kErrorBytes = 2048;

// Cuts `report` down to `limit_bytes`, of which its stdout and stderr took `written_bytes` (Conversation), and records
// in `output_bytes_cut` how much was cut. Texts are cut at a character boundary; other data is dropped whole. If a
// successful run had its value, displays or results cut, its outcome becomes out of output, so that a part is not
// taken for the whole.
void limit_output(Report& report, uint64_t written_bytes, uint64_t limit_bytes);

}  // namespace membrane::sandbox
