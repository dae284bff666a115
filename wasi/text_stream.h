// Converts bytes that arrive in pieces to UTF-8: a character split between pieces waits for its rest; invalid bytes
// become U+FFFD, or are kept.
//
// Threads: values.
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace membrane::wasi {

class TextStream {
 public:
  // Returns the text that is complete now.
  std::string add(std::string_view bytes);
  // Returns the rest at the end: U+FFFD for each byte of an incomplete character.
  std::string finish();

  // The same, but keeps invalid bytes.
  std::string add_bytes(std::string_view bytes);
  std::string finish_bytes() { return std::exchange(waiting_, {}); }

  [[nodiscard]] const std::string& waiting() const { return waiting_; }  // at most 3 bytes
  void go_on_from(std::string waiting) { waiting_ = std::move(waiting); }

 private:
  std::string waiting_;
};

}  // namespace membrane::wasi
