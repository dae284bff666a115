// The available interpreters.
#pragma once

#include <memory>

#include "sandbox/interpreter.h"

namespace membrane::sandbox {

std::unique_ptr<Interpreter> make_python();
std::unique_ptr<Interpreter> make_quickjs();
std::unique_ptr<Interpreter> make_stdin(const lang::Package& package);

}  // namespace membrane::sandbox
