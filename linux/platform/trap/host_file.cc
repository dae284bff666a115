#include "linux/platform/trap/host_file.h"

#include <sys/mman.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace membrane::linux {
namespace {
constexpr size_t kMostDescriptors = 16;
}

bool send_message(int socket, std::span<const std::byte> bytes, std::span<const int> descriptors) {
  if (descriptors.size() > kMostDescriptors) return false;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostDescriptors * sizeof(int))> control = {};
  iovec io = {const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message = {};
  message.msg_iov = &io;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* const head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(head), descriptors.data(), descriptors.size_bytes());
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(bytes.size());
}

bool receive_message(int socket, std::span<std::byte> bytes, HostFile* descriptor) {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control = {};
  iovec io = {bytes.data(), bytes.size()};
  msghdr message = {};
  message.msg_iov = &io;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t length = -1;
  do length = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  while (length < 0 && errno == EINTR);
  const cmsghdr* const head = length >= 0 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (head != nullptr && head->cmsg_type == SCM_RIGHTS && head->cmsg_len >= CMSG_LEN(0)) {
    // There is room for a second descriptor, from a sender that is not trusted.
    const size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(head) + i * sizeof number, sizeof number);
      HostFile received(number);
      if (i == 0 && descriptor != nullptr) *descriptor = std::move(received);
    }
  }
  return length == static_cast<ssize_t>(bytes.size());
}

bool make_socket_pair(HostFile& one, HostFile& other) {
  std::array<int, 2> ends = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return false;
  one = HostFile(ends[0]);
  other = HostFile(ends[1]);
  return true;
}

HostFile make_memory(const char* name, size_t length) {
  HostFile file(memfd_create(name, MFD_CLOEXEC));
  if (file && ftruncate(file.number(), static_cast<off_t>(length)) != 0) file.close();
  return file;
}

}  // namespace membrane::linux
