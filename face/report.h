// A report of the inner kind as the public one.
#pragma once

#include "membrane/membrane.hpp"
#include "sandbox/report.h"

namespace membrane::face {

Report report_of(sandbox::Report made);

}  // namespace membrane::face
