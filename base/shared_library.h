// A system library that is loaded when it is first needed, not at start.
//
// `membrane run add.wat` needs neither SQLite nor OpenSSL, and loading them costs more than the run. Code that needs
// such a library declares a table of typed function pointers and fills it once with this class. A loaded library
// stays loaded until the process ends.
//
// Threads: any; the caller keeps the table in a function-local static.
#pragma once

#include <string>

#include "base/result.h"

namespace membrane {

class SharedLibrary {
 public:
  // `soname` is searched as the dynamic linker does: "libcrypto.so.3". kUnavailable when it is not installed; the
  // hint names Debian's `package`.
  static Result<SharedLibrary> open(const char* soname, const char* package);

  // Binds `function` to the symbol `name`; kUnavailable when the library lacks it.
  template <typename Function>
  Status bind(Function*& function, const char* name) const {
    auto address = find(name);
    if (!address) return std::unexpected(std::move(address).error());
    function = reinterpret_cast<Function*>(*address);
    return {};
  }

 private:
  SharedLibrary(void* handle, std::string soname) : handle_(handle), soname_(std::move(soname)) {}
  [[nodiscard]] Result<void*> find(const char* name) const;

  void* handle_;
  std::string soname_;
};

}  // namespace membrane
