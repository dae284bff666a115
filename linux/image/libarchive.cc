#include "linux/image/libarchive.h"

#include "base/shared_library.h"

namespace membrane::linux {

namespace {

Result<LibArchive> load() {
  MEMBRANE_ASSIGN(const SharedLibrary library, SharedLibrary::open("libarchive.so.13", "libarchive13"));
  LibArchive api;
#define X(function) MEMBRANE_TRY(library.bind(api.function, #function));
  MEMBRANE_ARCHIVE_FUNCTIONS(X)
#undef X
  return api;
}

const Result<LibArchive>& loaded() {
  static const Result<LibArchive> api = load();
  return api;
}

}  // namespace

Status load_libarchive() {
  if (!loaded()) return std::unexpected(loaded().error());
  return {};
}

const LibArchive& libarchive() { return *loaded(); }

}  // namespace membrane::linux
