#include "base/result.h"

namespace membrane {

std::string_view name_of(ErrorCode code) {
  switch (code) {
#define X(id, name, sentence)      \
  case ErrorCode::id: return name;
    MEMBRANE_ERROR_CODES(X)
#undef X
  }
  return "internal";
}

std::string_view describe(ErrorCode code) {
  switch (code) {
#define X(id, name, sentence)          \
  case ErrorCode::id: return sentence;
    MEMBRANE_ERROR_CODES(X)
#undef X
  }
  return "Membrane itself failed; this is a bug.";
}

std::string Error::to_string() const { return hint.empty() ? message : message + " (" + hint + ")"; }

}  // namespace membrane
