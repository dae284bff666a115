// Bytes that come in pieces, as UTF-8: a character that a piece cuts waits for its rest; what is no character
// becomes U+FFFD, or is left as it is.
//
// Threads: values.
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace membrane::wasi {

class TextStream {
 public:
  // What can be said now.
  std::string add(std::string_view bytes);
  // What is left at the end: U+FFFD for each byte of a character that was not finished.
  std::string finish();

  // The same, with what is no character as it came.
  std::string add_bytes(std::string_view bytes);
  std::string finish_bytes() { return std::exchange(waiting_, {}); }

  [[nodiscard]] const std::string& waiting() const { return waiting_; }  // at most 3 bytes
  void go_on_from(std::string waiting) { waiting_ = std::move(waiting); }

 private:
  std::string waiting_;
};

}  // namespace membrane::wasi
