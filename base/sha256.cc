#include "base/sha256.h"

#include <openssl/evp.h>

#include <array>
#include <memory>

#include "base/hex.h"
#include "base/shared_library.h"

namespace membrane {
namespace {

// What is used of libcrypto. The header gives the types; nothing is linked.
struct Crypto {
  decltype(&::EVP_MD_CTX_new) context_new = nullptr;
  decltype(&::EVP_MD_CTX_free) context_free = nullptr;
  decltype(&::EVP_sha256) sha256 = nullptr;
  decltype(&::EVP_DigestInit_ex) init = nullptr;
  decltype(&::EVP_DigestUpdate) update = nullptr;
  decltype(&::EVP_DigestFinal_ex) final = nullptr;
};

Result<Crypto> load() {
  MEMBRANE_ASSIGN(const SharedLibrary library, SharedLibrary::open("libcrypto.so.3"));
  Crypto crypto;
  MEMBRANE_TRY(library.bind(crypto.context_new, "EVP_MD_CTX_new"));
  MEMBRANE_TRY(library.bind(crypto.context_free, "EVP_MD_CTX_free"));
  MEMBRANE_TRY(library.bind(crypto.sha256, "EVP_sha256"));
  MEMBRANE_TRY(library.bind(crypto.init, "EVP_DigestInit_ex"));
  MEMBRANE_TRY(library.bind(crypto.update, "EVP_DigestUpdate"));
  MEMBRANE_TRY(library.bind(crypto.final, "EVP_DigestFinal_ex"));
  return crypto;
}

}  // namespace

Result<std::string> sha256_hex(std::initializer_list<std::string_view> parts) {
  static const Result<Crypto> crypto = load();
  if (!crypto) return std::unexpected(crypto.error());

  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(crypto->context_new(),
                                                                   crypto->context_free);
  bool ok = context != nullptr && crypto->init(context.get(), crypto->sha256(), nullptr) == 1;
  for (const std::string_view part : parts)
    ok = ok && crypto->update(context.get(), part.data(), part.size()) == 1;
  std::array<unsigned char, 32> digest{};
  ok = ok && crypto->final(context.get(), digest.data(), nullptr) == 1;
  if (!ok) return fail(ErrorCode::kInternal, "libcrypto could not compute a SHA-256");
  return hex_of(digest);
}

}  // namespace membrane
