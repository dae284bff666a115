// Membrane's own part of each language, which programs import: lang/python/guest and lang/javascript/guest, embedded
// at build time (tools/embed-files). Files under "host" run on this machine: packages/host.
//
// Threads: constant.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace membrane::lang {

struct GuestFile {
  std::string_view language;  // "python", "javascript", "host"
  std::string_view path;      // "membrane/__init__.py"
  std::span<const unsigned char> bytes;
};
std::span<const GuestFile> guest_files();

}  // namespace membrane::lang
