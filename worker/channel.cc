#include "worker/channel.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/text.h"

namespace membrane::worker {
namespace {

struct Header {
  uint32_t bytes;
  uint16_t kind;
  uint16_t descriptors;
  uint32_t subject;
};
static_assert(sizeof(Header) == 12);

constexpr size_t kReadBytes = 64u << 10;
constexpr std::chrono::milliseconds kLookAgain(20);

std::unexpected<Error> gone() {
  return fail(ErrorCode::kUnavailable, "the other side of the socket is gone");
}

// In ms, rounded up; -1 for no deadline.
int patience(Channel::Clock::time_point until) {
  if (until == Channel::Clock::time_point::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Channel::Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 60'000));
}

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(number_, other.number_);
  return *this;
}

Descriptor::~Descriptor() {
  if (number_ >= 0) close(number_);
}

Result<std::pair<Descriptor, Descriptor>> Channel::make_pair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return fail(ErrorCode::kUnavailable,
                "cannot make a socket for a worker: " + std::string(strerror(errno)));
  return std::pair(Descriptor(ends[0]), Descriptor(ends[1]));
}

Status Channel::send(uint16_t kind, uint32_t subject, std::string_view payload,
                     std::span<const int> descriptors, Clock::time_point until,
                     const std::function<Clock::time_point()>& sooner) {
  if (payload.size() > UINT32_MAX || descriptors.size() > kMostDescriptors)
    return fail(ErrorCode::kExhausted, "a message of " + count_of(payload.size(), "byte") + " is too long");
  Header header{static_cast<uint32_t>(payload.size()), kind, static_cast<uint16_t>(descriptors.size()),
                subject};
  size_t sent = 0;
  const size_t all = sizeof header + payload.size();
  while (sent < all) {
    std::array<iovec, 2> parts{};
    size_t count = 0;
    if (sent < sizeof header)
      parts[count++] = {reinterpret_cast<char*>(&header) + sent, sizeof header - sent};
    const size_t of_payload = sent < sizeof header ? 0 : sent - sizeof header;
    if (of_payload < payload.size())
      parts[count++] = {const_cast<char*>(payload.data()) + of_payload, payload.size() - of_payload};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = count;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostDescriptors * sizeof(int))> control{};
    if (sent == 0 && !descriptors.empty()) {
      message.msg_control = control.data();
      message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
      cmsghdr* const with = CMSG_FIRSTHDR(&message);
      with->cmsg_level = SOL_SOCKET;
      with->cmsg_type = SCM_RIGHTS;
      with->cmsg_len = CMSG_LEN(descriptors.size_bytes());
      std::memcpy(CMSG_DATA(with), descriptors.data(), descriptors.size_bytes());
    }
    const ssize_t wrote = sendmsg(socket_.number(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (wrote >= 0) {
      sent += static_cast<size_t>(wrote);
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return gone();
    pollfd waited{socket_.number(), POLLOUT, 0};
    if (sooner) until = std::min(until, sooner());
    const auto look_again = sooner ? Clock::now() + kLookAgain : until;
    if (poll(&waited, 1, patience(std::min(until, look_again))) == 0 && Clock::now() >= until)
      return fail(ErrorCode::kTimedOut, "the other side of the socket does not read");
  }
  return {};
}

Result<bool> Channel::read_some() {
  if (at_ != 0 && at_ == in_.size()) {
    in_.clear();
    at_ = 0;
  }
  const size_t had = in_.size();
  // For a long frame, allocates only what is about to be filled, so the sender pays for memory with bytes.
  const size_t room = std::clamp<size_t>(had - at_, kReadBytes, 16 * kReadBytes);
  in_.resize(had + room);
  iovec part{in_.data() + had, room};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostDescriptors * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = recvmsg(socket_.number(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  in_.resize(had + static_cast<size_t>(std::max<ssize_t>(got, 0)));
  if (got < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return false;
    return gone();
  }
  for (cmsghdr* with = CMSG_FIRSTHDR(&message); with != nullptr; with = CMSG_NXTHDR(&message, with)) {
    if (with->cmsg_level != SOL_SOCKET || with->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (with->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(with) + i * sizeof number, sizeof number);
      came_along_.emplace_back(number);
    }
  }
  if (came_along_.size() > kMostDescriptors)
    return fail(ErrorCode::kInvalidInput, "more descriptors arrived than any message may carry");
  if (got == 0) return gone();
  return true;
}

Result<std::optional<Frame>> Channel::next() {
  Header header;
  if (in_.size() - at_ < sizeof header) return std::nullopt;
  std::memcpy(&header, in_.data() + at_, sizeof header);
  if (header.bytes > most_bytes_)
    return fail(ErrorCode::kInvalidInput, "a message of " + count_of(header.bytes, "byte") +
                                              " is longer than the " + std::to_string(most_bytes_) +
                                              " that are accepted");
  if (in_.size() - at_ - sizeof header < header.bytes) return std::nullopt;
  if (header.descriptors != came_along_.size())
    return fail(ErrorCode::kInvalidInput, "a message's descriptors do not match its header");
  Frame frame;
  frame.kind = header.kind;
  frame.subject = header.subject;
  frame.descriptors = std::move(came_along_);
  came_along_.clear();
  const size_t begin = at_ + sizeof header, end = begin + header.bytes;
  if (end == in_.size() && header.bytes > kReadBytes) {  // a single long one is not copied
    in_.erase(0, begin);
    frame.payload = std::move(in_);
    in_ = {};
    at_ = 0;
  } else {
    frame.payload.assign(in_, begin, header.bytes);
    at_ = end;
    if (at_ > kReadBytes) {
      in_.erase(0, at_);
      at_ = 0;
    }
  }
  return frame;
}

Result<std::optional<Frame>> Channel::receive(Clock::time_point until, std::span<const int> others) {
  std::array<pollfd, 1 + kMostOthers> waited{{{socket_.number(), POLLIN, 0}}};
  const size_t count = 1 + std::min(others.size(), kMostOthers);
  for (size_t i = 1; i < count; ++i) waited[i] = {others[i - 1], POLLIN, 0};
  while (true) {
    auto frame = next();
    if (!frame || *frame) return frame;
    MEMBRANE_ASSIGN(const bool came, read_some());
    if (came) continue;
    const int ready = poll(waited.data(), count, patience(until));
    if (ready < 0 && errno == EINTR) return std::nullopt;
    if (ready > 0 && std::any_of(waited.begin() + 1, waited.begin() + static_cast<ptrdiff_t>(count),
                                 [](const pollfd& other) { return other.revents != 0; }))
      return std::nullopt;
    if (ready == 0 && Clock::now() >= until) return std::nullopt;
  }
}

}  // namespace membrane::worker
