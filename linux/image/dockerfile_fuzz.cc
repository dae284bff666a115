// Dockerfiles that are untrusted, and the words in them.
#include <cstdlib>

#include "linux/image/dockerfile.h"

namespace membrane::linux {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = parse_dockerfile({reinterpret_cast<const char*>(data), size});
  if (!file) return file.error().message.empty() ? std::abort(), 0 : 0;
  const auto variables = [](std::string_view name) -> std::optional<std::string_view> {
    if (name.size() % 2 == 0) return std::nullopt;
    return name;
  };
  size_t line = 0;
  for (const DockerInstruction& each : file->instructions) {
    if (each.line <= line || each.name.empty() || each.text.empty()) std::abort();
    line = each.line;
    (void)docker_pairs(each, variables, file->escape);
    (void)expand_docker_word(each.text, variables, file->escape);
    for (const HereDocument& document : each.documents)
      (void)expand_docker_words(document.text, variables, file->escape);
  }
  return 0;
}

}  // namespace membrane::linux
