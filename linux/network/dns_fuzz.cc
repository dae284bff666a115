// A guest's DNS query of arbitrary bytes: the answer is well-formed and repeats the question.
#include <cstdlib>

#include "linux/network/dns.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace membrane::linux;
  const auto query = std::as_bytes(std::span(data, size));
  const auto answer = answer_dns(query, [](std::string_view name) -> DnsName {
    for (const char c : name)
      if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.'))
        std::abort();
    return {.exists = name.size() % 2 == 0, .v4 = std::array<uint8_t, 4>{198, 18, 0, 2}, .v6 = {}};
  });
  if (!answer) return 0;
  if (answer->size() < 12 || answer->size() > 12 + 255 + 4 + 44) std::abort();
  if (static_cast<uint8_t>((*answer)[0]) != data[0] || static_cast<uint8_t>((*answer)[1]) != data[1])
    std::abort();
  return 0;
}
