#include "base/zlib.h"

#include <zlib.h>

#include "base/shared_library.h"

namespace membrane {
namespace {

// The functions used from zlib. The header gives the types; nothing is linked.
struct Zlib {
  decltype(&::compressBound) bound = nullptr;
  decltype(&::compress) compress = nullptr;
  decltype(&::uncompress2) uncompress = nullptr;
};

Result<Zlib> load() {
  MEMBRANE_ASSIGN(const SharedLibrary library, SharedLibrary::open("libz.so.1", "zlib1g"));
  Zlib zlib;
  MEMBRANE_TRY(library.bind(zlib.bound, "compressBound"));
  MEMBRANE_TRY(library.bind(zlib.compress, "compress"));
  MEMBRANE_TRY(library.bind(zlib.uncompress, "uncompress2"));
  return zlib;
}

const Result<Zlib>& zlib() {
  static const Result<Zlib> loaded = load();
  return loaded;
}

Bytef* bytes_of(std::string& text) { return reinterpret_cast<Bytef*>(text.data()); }
const Bytef* bytes_of(std::string_view text) { return reinterpret_cast<const Bytef*>(text.data()); }

}  // namespace

Result<std::string> compress_bytes(std::string_view bytes) {
  if (!zlib()) return std::unexpected(zlib().error());
  uLongf size = zlib()->bound(bytes.size());
  std::string compressed(size, '\0');
  if (zlib()->compress(bytes_of(compressed), &size, bytes_of(bytes), bytes.size()) != Z_OK)
    return fail(ErrorCode::kInternal, "zlib could not compress");
  compressed.resize(size);
  return compressed;
}

Result<std::string> decompress_bytes(std::string_view compressed, size_t bytes) {
  if (!zlib()) return std::unexpected(zlib().error());
  std::string made(bytes + 1, '\0');  // one byte more, to detect longer data
  uLongf size = made.size();
  uLong taken = compressed.size();
  const int done = zlib()->uncompress(bytes_of(made), &size, bytes_of(compressed), &taken);
  if (done != Z_OK || size != bytes || taken != compressed.size())
    return fail(ErrorCode::kInvalidInput, "the compressed bytes are damaged");
  made.resize(size);
  return made;
}

}  // namespace membrane
