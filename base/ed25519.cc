#include "base/ed25519.h"

#include <openssl/evp.h>
#include <sys/random.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "base/shared_library.h"

namespace membrane {
namespace {

// The functions used from libcrypto. The header gives the types; nothing is linked.
struct Crypto {
  decltype(&::EVP_MD_CTX_new) context_new = nullptr;
  decltype(&::EVP_MD_CTX_free) context_free = nullptr;
  decltype(&::EVP_PKEY_new_raw_private_key) private_key = nullptr;
  decltype(&::EVP_PKEY_new_raw_public_key) public_key = nullptr;
  decltype(&::EVP_PKEY_get_raw_public_key) raw_public_key = nullptr;
  decltype(&::EVP_PKEY_free) key_free = nullptr;
  decltype(&::EVP_DigestSignInit) sign_init = nullptr;
  decltype(&::EVP_DigestSign) sign = nullptr;
  decltype(&::EVP_DigestVerifyInit) verify_init = nullptr;
  decltype(&::EVP_DigestVerify) verify = nullptr;
};

Result<Crypto> load() {
  MEMBRANE_ASSIGN(const SharedLibrary library, SharedLibrary::open("libcrypto.so.3", "libssl3"));
  Crypto crypto;
  MEMBRANE_TRY(library.bind(crypto.context_new, "EVP_MD_CTX_new"));
  MEMBRANE_TRY(library.bind(crypto.context_free, "EVP_MD_CTX_free"));
  MEMBRANE_TRY(library.bind(crypto.private_key, "EVP_PKEY_new_raw_private_key"));
  MEMBRANE_TRY(library.bind(crypto.public_key, "EVP_PKEY_new_raw_public_key"));
  MEMBRANE_TRY(library.bind(crypto.raw_public_key, "EVP_PKEY_get_raw_public_key"));
  MEMBRANE_TRY(library.bind(crypto.key_free, "EVP_PKEY_free"));
  MEMBRANE_TRY(library.bind(crypto.sign_init, "EVP_DigestSignInit"));
  MEMBRANE_TRY(library.bind(crypto.sign, "EVP_DigestSign"));
  MEMBRANE_TRY(library.bind(crypto.verify_init, "EVP_DigestVerifyInit"));
  MEMBRANE_TRY(library.bind(crypto.verify, "EVP_DigestVerify"));
  return crypto;
}

const Result<Crypto>& crypto() {
  static const Result<Crypto> loaded = load();
  return loaded;
}

struct Free {
  void operator()(EVP_PKEY* key) const { crypto()->key_free(key); }
  void operator()(EVP_MD_CTX* context) const { crypto()->context_free(context); }
};
using Key = std::unique_ptr<EVP_PKEY, Free>;
using Context = std::unique_ptr<EVP_MD_CTX, Free>;

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}
unsigned char* bytes_of(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }

Result<Key> private_key_of(std::string_view seed) {
  if (!crypto()) return std::unexpected(crypto().error());
  if (seed.size() != kEd25519KeyBytes)
    return fail(ErrorCode::kInvalidArgument,
                "an Ed25519 private key has 32 bytes, not " + std::to_string(seed.size()));
  Key key(crypto()->private_key(EVP_PKEY_ED25519, nullptr, bytes_of(seed), seed.size()));
  if (key == nullptr) return fail(ErrorCode::kInternal, "libcrypto does not accept an Ed25519 key");
  return key;
}

}  // namespace

Result<std::string> system_random(size_t count) {
  std::string bytes(count, '\0');
  for (size_t done = 0; done < count;) {
    const ssize_t got = getrandom(bytes.data() + done, count - done, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      return fail(ErrorCode::kUnavailable,
                  std::string("the system has no randomness: ") + std::strerror(errno));
    done += static_cast<size_t>(got);
  }
  return bytes;
}

Result<Ed25519Pair> ed25519_generate() {
  Ed25519Pair pair;
  MEMBRANE_ASSIGN(pair.private_key, system_random(kEd25519KeyBytes));
  MEMBRANE_ASSIGN(const Key key, private_key_of(pair.private_key));
  pair.public_key.resize(kEd25519KeyBytes);
  size_t size = pair.public_key.size();
  if (crypto()->raw_public_key(key.get(), bytes_of(pair.public_key), &size) != 1 || size != kEd25519KeyBytes)
    return fail(ErrorCode::kInternal, "libcrypto could not make an Ed25519 key");
  return pair;
}

Result<std::string> ed25519_sign(std::string_view private_key, std::string_view message) {
  MEMBRANE_ASSIGN(const Key key, private_key_of(private_key));
  const Context context(crypto()->context_new());
  std::string signature(kEd25519SignatureBytes, '\0');
  size_t size = signature.size();
  if (context == nullptr || crypto()->sign_init(context.get(), nullptr, nullptr, nullptr, key.get()) != 1 ||
      crypto()->sign(context.get(), bytes_of(signature), &size, bytes_of(message), message.size()) != 1 ||
      size != kEd25519SignatureBytes)
    return fail(ErrorCode::kInternal, "libcrypto could not sign");
  return signature;
}

Result<bool> ed25519_verify(std::string_view public_key, std::string_view message,
                            std::string_view signature) {
  if (!crypto()) return std::unexpected(crypto().error());
  if (public_key.size() != kEd25519KeyBytes || signature.size() != kEd25519SignatureBytes) return false;
  const Key key(crypto()->public_key(EVP_PKEY_ED25519, nullptr, bytes_of(public_key), public_key.size()));
  if (key == nullptr) return false;
  const Context context(crypto()->context_new());
  if (context == nullptr || crypto()->verify_init(context.get(), nullptr, nullptr, nullptr, key.get()) != 1)
    return fail(ErrorCode::kInternal, "libcrypto could not start a verification");
  return crypto()->verify(context.get(), bytes_of(signature), signature.size(), bytes_of(message),
                          message.size()) == 1;
}

}  // namespace membrane
