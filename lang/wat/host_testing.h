// A host for the tests of lang/: a few functions of each kind that the preprocessor distinguishes.
#pragma once

#include "lang/wat/host_table.h"

namespace membrane::lang {

const HostTable& test_host();

}  // namespace membrane::lang
