// Checks a program in WebAssembly's text or binary format before it runs: in this process, or in a worker
// (worker/worker.h), with the same result.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/diagnostic.h"

namespace membrane::sandbox {

// A finding of Membrane or of a language.
struct Finding {
  std::string code;
  std::string message;
  Place place;
  std::string function = {};
  std::string expected = {};
  std::string found = {};
  std::string hint = {};
  std::string text = {};  // the whole finding, for a person
};

struct CheckRequest {
  std::string source;
  std::string name;      // for messages
  bool expands = false;  // if nothing is wrong, also return the program as plain text
  uint64_t wall_ms = 60'000;
};

struct CheckAnswer {
  std::vector<Finding> findings;
  std::string plain;         // the expansion of a text, or the disassembly of a binary
  bool was_stopped = false;  // its time was up; the other members have no meaning
};

CheckAnswer check_program(const CheckRequest& request);

}  // namespace membrane::sandbox
