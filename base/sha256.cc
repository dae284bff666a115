#include "base/sha256.h"

#include <openssl/evp.h>

#include <array>
#include <utility>

#include "base/hex.h"
#include "base/shared_library.h"

namespace membrane {
namespace {

// The functions used from libcrypto. The header gives the types; nothing is linked.
struct Crypto {
  decltype(&::EVP_MD_CTX_new) context_new = nullptr;
  decltype(&::EVP_MD_CTX_free) context_free = nullptr;
  decltype(&::EVP_sha256) sha256 = nullptr;
  decltype(&::EVP_sha1) sha1 = nullptr;
  decltype(&::EVP_DigestInit_ex) init = nullptr;
  decltype(&::EVP_DigestUpdate) update = nullptr;
  decltype(&::EVP_DigestFinal_ex) final = nullptr;
};

Result<Crypto> load() {
  MEMBRANE_ASSIGN(const SharedLibrary library, SharedLibrary::open("libcrypto.so.3", "libssl3"));
  Crypto crypto;
  MEMBRANE_TRY(library.bind(crypto.context_new, "EVP_MD_CTX_new"));
  MEMBRANE_TRY(library.bind(crypto.context_free, "EVP_MD_CTX_free"));
  MEMBRANE_TRY(library.bind(crypto.sha256, "EVP_sha256"));
  MEMBRANE_TRY(library.bind(crypto.sha1, "EVP_sha1"));
  MEMBRANE_TRY(library.bind(crypto.init, "EVP_DigestInit_ex"));
  MEMBRANE_TRY(library.bind(crypto.update, "EVP_DigestUpdate"));
  MEMBRANE_TRY(library.bind(crypto.final, "EVP_DigestFinal_ex"));
  return crypto;
}

const Result<Crypto>& crypto() {
  static const Result<Crypto> loaded = load();
  return loaded;
}

EVP_MD_CTX* context_of(void* context) { return static_cast<EVP_MD_CTX*>(context); }

}  // namespace

void Sha256::Free::operator()(void* context) const { crypto()->context_free(context_of(context)); }

Result<Sha256> Sha256::begin() {
  if (!crypto()) return std::unexpected(crypto().error());
  Sha256 made;
  made.context_.reset(crypto()->context_new());
  made.ok_ = made.context_ != nullptr &&
             crypto()->init(context_of(made.context_.get()), crypto()->sha256(), nullptr) == 1;
  return made;
}

void Sha256::add(std::string_view bytes) {
  ok_ = ok_ && crypto()->update(context_of(context_.get()), bytes.data(), bytes.size()) == 1;
}

Result<std::string> Sha256::finish() {
  std::array<unsigned char, 32> digest{};
  const bool ok =
      std::exchange(ok_, false) && crypto()->final(context_of(context_.get()), digest.data(), nullptr) == 1;
  if (!ok) return fail(ErrorCode::kInternal, "libcrypto could not compute a SHA-256");
  return hex_of(digest);
}

Result<std::string> sha256_hex(std::initializer_list<std::string_view> parts) {
  MEMBRANE_ASSIGN(Sha256 hash, Sha256::begin());
  for (const std::string_view part : parts) hash.add(part);
  return hash.finish();
}

Result<std::string> sha1_hex(std::initializer_list<std::string_view> parts) {
  if (!crypto()) return std::unexpected(crypto().error());
  const std::unique_ptr<EVP_MD_CTX, decltype(crypto()->context_free)> context(crypto()->context_new(),
                                                                              crypto()->context_free);
  std::array<unsigned char, 20> digest{};
  bool ok = context != nullptr && crypto()->init(context.get(), crypto()->sha1(), nullptr) == 1;
  for (const std::string_view part : parts)
    ok = ok && crypto()->update(context.get(), part.data(), part.size()) == 1;
  ok = ok && crypto()->final(context.get(), digest.data(), nullptr) == 1;
  if (!ok) return fail(ErrorCode::kInternal, "libcrypto could not compute a SHA-1");
  return hex_of(digest);
}

bool is_sha256_hex(std::string_view text) {
  constexpr size_t kDigits = 64;
  return text.size() == kDigits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace membrane
