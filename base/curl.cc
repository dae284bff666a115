#include "base/curl.h"

#include <dlfcn.h>

#include <string>

namespace membrane {
namespace {

constexpr char kLibrary[] = "libcurl.so.4";

// RTLD_LOCAL keeps libcurl's own dependencies out of the embedder's symbol namespace.
Result<CurlApi> load() {
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    return fail(ErrorCode::kUnsupported, std::string("libcurl cannot be loaded: ") + (why ? why : kLibrary),
                "install libcurl4 (OpenSSL flavour)");
  }
  CurlApi api;
  const auto find = [library](auto& member, const char* name) {
    member = reinterpret_cast<std::decay_t<decltype(member)>>(dlsym(library, name));
    return member != nullptr;
  };
#define X(member, function)                                                              \
  if (!find(api.member, #function))                                                      \
    return fail(ErrorCode::kUnsupported, "libcurl is too old: it lacks " #function "()", \
                "install libcurl 7.80 or later");
  MEMBRANE_CURL_FUNCTIONS(X)
#undef X
  // Not in the table: called only here, once, before anything else.
  auto* global_init = reinterpret_cast<decltype(&::curl_global_init)>(dlsym(library, "curl_global_init"));
  if (global_init == nullptr || global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
    return fail(ErrorCode::kUnsupported, "libcurl could not be initialised");
  return api;
}

}  // namespace

Result<const CurlApi*> curl() {
  // Initialised once, by the first thread that gets here; never unloaded, since other threads may hold connections
  // until exit.
  static const Result<CurlApi> api = load();
  if (!api) return std::unexpected(api.error());
  return &*api;
}

}  // namespace membrane
