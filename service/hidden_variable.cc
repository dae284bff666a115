#include "service/hidden_variable.h"

#include <fcntl.h>
#include <limits.h>
#include <openssl/crypto.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>

namespace membrane::service {

HiddenVariable::HiddenVariable(const char* name) {
  char* const value = std::getenv(name);
  if (value == nullptr) return;
  const size_t size = std::strlen(value);
  std::array<int, 2> ends{};
  if (size <= PIPE_BUF && pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) == 0) {
    const worker::Descriptor writes(ends[1]);
    worker::Descriptor reads(ends[0]);
    if (write(ends[1], value, size) == static_cast<ssize_t>(size)) pipe_ = std::move(reads);
  }
  OPENSSL_cleanse(value, size);
  unsetenv(name);
}

std::string HiddenVariable::take() {
  if (!pipe_) return {};
  std::array<char, PIPE_BUF> bytes{};
  const ssize_t size = read(pipe_.number(), bytes.data(), bytes.size());
  std::string value(bytes.data(), size > 0 ? static_cast<size_t>(size) : 0);
  OPENSSL_cleanse(bytes.data(), bytes.size());
  pipe_ = {};
  return value;
}

}  // namespace membrane::service
