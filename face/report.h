// A report of the inner kind as the public one.
#pragma once

#include "base/result.h"
#include "membrane/membrane.hpp"
#include "sandbox/report/report.h"

namespace membrane::face {

// The reader of the hints: an embedder calls functions (face/hints.h), a user of the command gives flags.
enum class Reader : uint8_t { kEmbedder, kCommand };

Report report_of(sandbox::Report made, Reader reader = Reader::kEmbedder);
// The report of a program that was not run.
Report refused(const Error& error);
Report::Waiting waiting_of(const sandbox::WaitingCall& call);

}  // namespace membrane::face
