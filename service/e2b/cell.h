// Code as a notebook takes it, for an interpreter that takes Python alone: a cell that is indented as a whole, and lines that
// are commands of IPython's (`!pip install numpy`, `%matplotlib inline`).
//
// Threads: pure.
#pragma once

#include <string>
#include <string_view>

namespace membrane::service::e2b {

// The indentation of the first line that is not blank is taken from every line that begins with it, as IPython does. Lines
// that end in \r\n end in \n, which is the same to Python.
std::string without_indentation(std::string_view code);

struct PythonCell {
  std::string code;           // as many lines as were given
  bool has_commands = false;  // it calls what code_for_commands() makes
};

// The cell without its indentation, each command a call that runs it. What Python understands stays as it is: none of its
// lines begins with ! or %.
PythonCell python_cell(std::string_view code);

// Python that makes what carries out the commands of cells that run after it. It leaves no name behind.
std::string code_for_commands();

}  // namespace membrane::service::e2b
