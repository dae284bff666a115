// A report of the inner kind as the public one.
#pragma once

#include "base/result.h"
#include "membrane/membrane.hpp"
#include "sandbox/report.h"

namespace membrane::face {

Report report_of(sandbox::Report made);
// Of what was not run.
Report refused(const Error& error);
Report::Waiting waiting_of(const sandbox::WaitingCall& call);

}  // namespace membrane::face
