// Converts notebook code for a plain Python interpreter: a cell that is indented as a whole, and lines that
// are IPython commands (`!pip install numpy`, `%matplotlib inline`).
//
// Threads: pure.
#pragma once

#include <string>
#include <string_view>

namespace membrane::service::e2b {

// Removes the indentation of the first non-blank line from every line that begins with it, as IPython does.
// Lines that end in \r
//  get
// , which is the same to Python.
std::string without_indentation(std::string_view code);

struct PythonCell {
  std::string code;           // with the same number of lines
  bool has_commands = false;  // it calls what code_for_commands() defines
};

// The cell without its indentation, with each command replaced by a call that runs it. Valid Python stays as
// it is: none of its lines begins with ! or %.
PythonCell python_cell(std::string_view code);

// Python code that defines what runs the commands of later cells. It leaves no name defined.
std::string code_for_commands();

}  // namespace membrane::service::e2b
