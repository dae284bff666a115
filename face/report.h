// A report of the inner kind as the public one.
#pragma once

#include "membrane/membrane.hpp"
#include "sandbox/report.h"

namespace membrane::face {

Report report_of(sandbox::Report made);
Report::Waiting waiting_of(const sandbox::WaitingCall& call);

}  // namespace membrane::face
