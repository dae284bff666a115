#include "cli/input_source.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace membrane::cli {

Result<InputSource> InputSource::open(const std::string& path) {
  if (path == "-") return InputSource(STDIN_FILENO, false);
  const auto refused = [&](int why) {
    return fail(why == ENOENT ? ErrorCode::kNotFound : ErrorCode::kUnavailable,
                "cannot open " + path + ": " + std::strerror(why),
                why == EISDIR ? "Name a file in it." : "Check the path; \"-\" reads standard input.");
  };
  // A FIFO that nobody writes to yet has no input yet.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return refused(errno);
  InputSource source(file, true);
  struct stat status = {};
  if (fstat(file, &status) == 0 && S_ISDIR(status.st_mode)) return refused(EISDIR);
  return source;
}

InputSource::InputSource(InputSource&& other) noexcept
    : file_(std::exchange(other.file_, -1)), is_owned_(std::exchange(other.is_owned_, false)) {}

InputSource::~InputSource() {
  if (is_owned_) close(file_);
}

sandbox::InputPiece InputSource::read(std::chrono::milliseconds patience) {
  constexpr size_t kMostBytes = 65536;
  pollfd asked{.fd = file_, .events = POLLIN, .revents = 0};
  const int ready = poll(&asked, 1, static_cast<int>(patience.count()));
  if (ready == 0 || (ready < 0 && errno == EINTR)) return {};
  sandbox::InputPiece piece;
  piece.bytes.resize(kMostBytes);
  const ssize_t got = ready < 0 ? -1 : ::read(file_, piece.bytes.data(), kMostBytes);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return {};
  piece.bytes.resize(got > 0 ? static_cast<size_t>(got) : 0);
  piece.is_end = got <= 0;
  return piece;
}

}  // namespace membrane::cli
