// A program's input, read on demand.
//
// Threads: one at a time.
#pragma once

#include <chrono>
#include <string>

#include "base/result.h"
#include "sandbox/sandbox.h"

namespace membrane::cli {

class InputSource {
 public:
  // "-" is standard input. Errors: kNotFound, kUnavailable.
  static Result<InputSource> open(const std::string& path);

  InputSource(InputSource&& other) noexcept;
  InputSource& operator=(InputSource&&) = delete;
  ~InputSource();

  // Returns the available bytes, at most 64 KiB; nothing, when nothing comes within `patience`. An unreadable
  // source counts as ended.
  sandbox::InputPiece read(std::chrono::milliseconds patience);

 private:
  InputSource(int file, bool is_owned) : file_(file), is_owned_(is_owned) {}

  int file_;
  bool is_owned_;
};

}  // namespace membrane::cli
