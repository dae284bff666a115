// The error numbers that programs get from host functions, and the text that the report shows to a person. Data:
// errnos.def. Result 0 is success.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace membrane::host {

enum class Errno : int32_t {
#define ERRNO(id, name, number, sentence, remedy) id = number,
#include "host/guest/errnos.def"
#undef ERRNO
};

std::string_view name_of(Errno code);  // "EACCES"; "EUNKNOWN" for an unknown number
std::optional<Errno> errno_named(std::string_view name);
std::string_view describe(Errno code);   // the sentence
std::string_view remedy_of(Errno code);  // what to do; may be ""

// Why a call failed. The program gets the number; the report gets the text.
struct HostError {
  Errno code = Errno::kHost;
  std::string reason;  // one sentence, for the report: the request and why it was refused
  std::string grant;   // for kAccess: the flag or policy line that would allow it, e.g.
                       // "--allow 'http:GET:https://example.org/*'"; else empty
  bool acted = false;  // something had been sent or done already: it was not refused before anything happened
  bool is_unsent = false;  // of a request over HTTP: nothing has left the machine, whatever the code
  std::vector<std::string> redirects = {};  // as HttpResponse::redirects
};

template <typename T>
using HostResult = std::expected<T, HostError>;

[[nodiscard]] inline std::unexpected<HostError> refuse(Errno code, std::string reason,
                                                       std::string grant = {}) {
  return std::unexpected<HostError>(HostError{code, std::move(reason), std::move(grant)});
}

}  // namespace membrane::host
