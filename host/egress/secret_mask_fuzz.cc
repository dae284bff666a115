// A secret, up to the first newline, and a text: the text keeps its length, and no longer contains the secret,
// neither plain nor in base64 at any alignment.
#include <cstdlib>
#include <string>

#include "base/base64.h"
#include "host/egress/secret_mask.h"

using membrane::host::SecretMask;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  const size_t end = input.find('\n');
  if (end == std::string::npos || end < 8) return 0;
  const std::string secret = input.substr(0, end), text = input.substr(end + 1);
  if (secret.find('*') != std::string::npos) return 0;
  SecretMask mask({secret});
  std::string hidden = text;
  if (!mask.apply(hidden) || hidden.size() != text.size()) std::abort();
  if (hidden.find(secret) != std::string::npos) std::abort();
  const std::string encoded = membrane::base64_encode(secret);
  const size_t whole = secret.size() * 8 / 6;
  std::string around = text + encoded + text;
  if (!mask.apply(around) || around.find(encoded.substr(0, whole), text.size()) == text.size()) std::abort();
  return 0;
}
