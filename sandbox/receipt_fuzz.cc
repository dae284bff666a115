// Arbitrary text as a receipt, as its private part, as the content of each of its lines and as a document of keys:
// no crash, and nothing unsigned verifies.
#include <cstdlib>

#include "base/sha256.h"
#include "sandbox/receipt.h"
#include "sandbox/receipt_content.h"

using namespace membrane;
using namespace membrane::sandbox;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto keys = KeyRing::parse(text, "keys.json");
  if (keys && !KeyRing::parse(keys->to_json(false), "keys.json")) std::abort();
  if (const auto receipt = Receipt::parse(text)) {
    if (verify(*receipt, KeyRing())) std::abort();
    (void)PrivatePart::parse(std::string(text), *receipt);
  }
  // Parsed after the hash check, which a fuzzer cannot pass.
  for (const char* const name : {"program", "policy", "call"}) {
    Receipt receipt;
    receipt.items.push_back({name, sha256_hex(text).value(), {{"sha256", sha256_hex(text).value()}}});
    (void)PrivatePart::parse("{\"membrane_receipt_private\":1}\n" + std::string(text) + "\n", receipt);
  }
  (void)read_sealed_call(text);
  if (const auto how = Invocation::read(text);
      how && how->to_json() != text && !Invocation::read(how->to_json()))
    std::abort();
  (void)read_pieces(text);
  (void)read_bytes(text);
  return 0;
}
