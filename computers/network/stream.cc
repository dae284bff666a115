#include "computers/network/stream.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

namespace membrane::computers {
namespace {
constexpr std::chrono::milliseconds kMostSilence = std::chrono::minutes(10);
}

Result<std::unique_ptr<Stop>> Stop::create() {
  linux::HostFile event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event) return fail(ErrorCode::kUnavailable, std::string("no eventfd: ") + std::strerror(errno));
  return std::unique_ptr<Stop>(new Stop(std::move(event)));
}

void Stop::set() {
  is_set_ = true;
  const uint64_t one = 1;
  static_cast<void>(!::write(event_.number(), &one, sizeof one));
}

Result<std::unique_ptr<SocketStream>> SocketStream::create(linux::HostFile socket, const Stop& stop) {
  int domain = 0, type = 0;
  socklen_t size = sizeof(int);
  if (getsockopt(socket.number(), SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0 ||
      getsockopt(socket.number(), SOL_SOCKET, SO_TYPE, &type, &size) != 0 || domain != AF_UNIX ||
      type != SOCK_STREAM)
    return fail(ErrorCode::kInvalidInput, "a kernel process passed a descriptor that is not a stream");
  return std::unique_ptr<SocketStream>(new SocketStream(std::move(socket), stop));
}

// The peer may make the socket blocking, so no call relies on its mode.
bool SocketStream::wait(short events) {
  for (;;) {
    std::array<pollfd, 2> looked = {{{socket_.number(), events, 0}, {stop_.descriptor(), POLLIN, 0}}};
    std::chrono::milliseconds most = kMostSilence;
    if (until_)
      most =
          std::clamp(std::chrono::ceil<std::chrono::milliseconds>(*until_ - std::chrono::steady_clock::now()),
                     std::chrono::milliseconds(0), most);
    const int found = ::poll(looked.data(), looked.size(), static_cast<int>(most.count()));
    if (stop_.is_set()) return false;
    if (found > 0) return true;
    if (found == 0 || errno != EINTR) return false;
  }
}

size_t SocketStream::receive(std::span<char> to, int flags) {
  for (;;) {
    const ssize_t got = ::recv(socket_.number(), to.data(), to.size(), flags | MSG_DONTWAIT);
    if (got >= 0) return static_cast<size_t>(got);
    if (errno == EINTR) continue;
    if (errno != EAGAIN || !wait(POLLIN)) return 0;
  }
}

size_t SocketStream::read(std::span<char> to) { return stop_.is_set() ? 0 : receive(to, 0); }

int SocketStream::peek() {
  char byte = 0;
  return receive({&byte, 1}, MSG_PEEK) == 1 ? static_cast<unsigned char>(byte) : -1;
}

bool SocketStream::write(std::string_view bytes) {
  while (!bytes.empty() && !stop_.is_set()) {
    const ssize_t sent = ::send(socket_.number(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) bytes.remove_prefix(static_cast<size_t>(sent));
    else if (errno == EAGAIN && !wait(POLLOUT)) return false;
    else if (errno != EAGAIN && errno != EINTR) return false;
  }
  return bytes.empty();
}

void SocketStream::end() { ::shutdown(socket_.number(), SHUT_WR); }

}  // namespace membrane::computers
