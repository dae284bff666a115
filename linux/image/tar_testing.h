// Builds archives for tests entry by entry, in the oldest format.
#pragma once

#include <cstdio>
#include <cstring>
#include <string>

namespace membrane::linux {

class TarText {
 public:
  TarText& file(const std::string& path, const std::string& text, unsigned mode = 0644) {
    return add(path, '0', text, "", mode);
  }
  TarText& directory(const std::string& path, unsigned mode = 0755) { return add(path, '5', "", "", mode); }
  TarText& link(const std::string& path, const std::string& target) {
    return add(path, '2', "", target, 0777);
  }
  TarText& hard_link(const std::string& path, const std::string& target) {
    return add(path, '1', "", target, 0644);
  }
  TarText& add(const std::string& path, char type, const std::string& text, const std::string& target,
               unsigned mode) {
    std::string header(512, '\0');
    const auto put = [&](size_t at, const std::string& value) { header.replace(at, value.size(), value); };
    const auto octal = [](uint64_t number, int digits) {
      char digits_of[32];
      std::snprintf(digits_of, sizeof digits_of, "%0*llo", digits, static_cast<unsigned long long>(number));
      return std::string(digits_of);
    };
    put(0, path);
    put(100, octal(mode, 7));
    put(108, octal(3, 7));
    put(116, octal(4, 7));
    put(124, octal(text.size(), 11));
    put(136, octal(1234567, 11));
    put(148, "        ");
    put(156, std::string(1, type));
    put(157, target);
    put(257, std::string("ustar\00000", 8));
    put(329, octal(1, 7));
    put(337, octal(3, 7));
    unsigned sum = 0;
    for (const char c : header) sum += static_cast<unsigned char>(c);
    put(148, octal(sum, 6) + std::string("\0 ", 2));
    bytes_ += header + text + std::string((512 - text.size() % 512) % 512, '\0');
    return *this;
  }
  [[nodiscard]] std::string bytes() const { return bytes_ + std::string(1024, '\0'); }

 private:
  std::string bytes_;
};

}  // namespace membrane::linux
