// The text whose digest is the key of a layer or an image in the cache (layer_cache.h).
//
// Threads: values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/sha256.h"

namespace membrane::computers {

// Texts with their lengths, so that different lists never look the same.
class KeyText {
 public:
  KeyText& add(std::string_view text) {
    text_ += std::to_string(text.size()) + ":";
    text_ += text;
    return *this;
  }
  KeyText& add(const std::vector<std::string>& all) {
    add(std::to_string(all.size()));
    for (const std::string& each : all) add(each);
    return *this;
  }
  [[nodiscard]] Result<std::string> digest() const { return sha256_hex(text_); }

 private:
  std::string text_;
};

}  // namespace membrane::computers
