// Lines of text by printf's formats. Threads: any.
#pragma once

#include <string>

namespace membrane::linux {

// Formats at most 4095 bytes.
[[gnu::format(printf, 1, 2)]] std::string text_of(const char* format, ...);

}  // namespace membrane::linux
