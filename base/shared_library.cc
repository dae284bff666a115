#include "base/shared_library.h"

#include <dlfcn.h>

namespace membrane {

Result<SharedLibrary> SharedLibrary::open(const char* soname, const char* package) {
  // RTLD_LOCAL: its symbols must not interpose on those of other libraries.
  void* handle = ::dlopen(soname, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = ::dlerror();
    return fail(ErrorCode::kUnavailable,
                "cannot load " + std::string(soname) + " of the package " + package + ": " +
                    (why ? why : "unknown reason"),
                "install it: apt install " + std::string(package));
  }
  return SharedLibrary(handle, soname);
}

Result<void*> SharedLibrary::find(const char* name) const {
  void* address = ::dlsym(handle_, name);
  if (address == nullptr)
    return fail(ErrorCode::kUnavailable, soname_ + " has no function " + name,
                "install a newer version of the library");
  return address;
}

}  // namespace membrane
