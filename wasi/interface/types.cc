#include "wasi/interface/types.h"

namespace membrane::wasi {

std::string_view name_of(Errno code) {
  switch (code) {
#define ERRNO(id, name, number) \
  case Errno::id: return name;
#include "wasi/interface/errnos.def"
#undef ERRNO
  }
  return "EUNKNOWN";
}

}  // namespace membrane::wasi
