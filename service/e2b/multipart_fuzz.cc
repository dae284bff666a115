// Arbitrary bytes as a form and a boundary: parsed parts lie in the body.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "service/e2b/multipart.h"
#include "service/e2b/shell_words.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace membrane::service::e2b;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t line = std::min(input.find('\n'), input.size());
  const std::string_view body = input.substr(std::min(line + 1, input.size()));
  if (const auto words = shell_words(input.substr(0, line)))
    for (const std::string& word : *words)
      if (word.size() > line) std::abort();
  const auto parts = read_form(input.substr(0, line), body);
  if (!parts) {
    if (parts.error().message.empty()) std::abort();
    return 0;
  }
  for (const FormPart& part : *parts)
    if (part.bytes.data() < body.data() || part.bytes.data() + part.bytes.size() > body.data() + body.size())
      std::abort();
  return 0;
}
