#include "host/guest/errno.h"

namespace membrane::host {

std::string_view name_of(Errno code) {
  switch (code) {
#define ERRNO(id, name, number, sentence, remedy) \
  case Errno::id: return name;
#include "host/guest/errnos.def"
#undef ERRNO
  }
  return "EUNKNOWN";
}

std::optional<Errno> errno_named(std::string_view name) {
#define ERRNO(id, text, number, sentence, remedy) \
  if (name == text) return Errno::id;
#include "host/guest/errnos.def"
#undef ERRNO
  return std::nullopt;
}

std::string_view describe(Errno code) {
  switch (code) {
#define ERRNO(id, name, number, sentence, remedy) \
  case Errno::id: return sentence;
#include "host/guest/errnos.def"
#undef ERRNO
  }
  return "An unknown error number.";
}

std::string_view remedy_of(Errno code) {
  switch (code) {
#define ERRNO(id, name, number, sentence, remedy) \
  case Errno::id: return remedy;
#include "host/guest/errnos.def"
#undef ERRNO
  }
  return "";
}

}  // namespace membrane::host
