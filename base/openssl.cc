#include "base/openssl.h"

#include "base/shared_library.h"

namespace membrane {
namespace {

Result<OpenSslApi> load() {
  MEMBRANE_ASSIGN(const SharedLibrary crypto, SharedLibrary::open("libcrypto.so.3", "libssl3"));
  MEMBRANE_ASSIGN(const SharedLibrary tls, SharedLibrary::open("libssl.so.3", "libssl3"));
  OpenSslApi api;
#define X(member, function) MEMBRANE_TRY(crypto.bind(api.member, #function));
  MEMBRANE_TLS_CRYPTO_FUNCTIONS(X)
#undef X
#define X(member, function) MEMBRANE_TRY(tls.bind(api.member, #function));
  MEMBRANE_TLS_FUNCTIONS(X)
#undef X
  return api;
}

}  // namespace

Result<const OpenSslApi*> openssl() {
  static const Result<OpenSslApi> api = load();
  if (!api) return std::unexpected(api.error());
  return &*api;
}

}  // namespace membrane
