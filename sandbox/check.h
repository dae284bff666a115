// What is wrong with a program in WebAssembly's text or binary format, before it runs: found in this process, or by a worker
// (worker/worker.h), which gives the same.
//
// Threads: pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/diagnostic.h"

namespace membrane::sandbox {

// A finding, of Membrane or of a language.
struct Finding {
  std::string code;
  std::string message;
  Place place;
  std::string function = {};
  std::string expected = {};
  std::string found = {};
  std::string hint = {};
  std::string text = {};  // all of it, for a person
};

struct CheckRequest {
  std::string source;
  std::string name;      // for messages
  bool expands = false;  // when nothing is wrong, give the program as plain text
  uint64_t wall_ms = 60'000;
};

struct CheckAnswer {
  std::vector<Finding> findings;
  std::string plain;         // of a text, its expansion; of a binary, what it disassembles to
  bool was_stopped = false;  // its time was over, and the rest means nothing
};

CheckAnswer check_program(const CheckRequest& request);

}  // namespace membrane::sandbox
