#include "linux/files/stream_socket.h"

#include <fcntl.h>
#include <signal.h>

#include <algorithm>
#include <array>

namespace membrane::linux {
namespace {

constexpr size_t kMostBacklog = 4096;
constexpr size_t kMostPiece = 65536;  // bytes of a stream in one packet

}  // namespace

StreamSocket::StreamSocket(std::shared_ptr<SocketEnd> end, std::shared_ptr<SocketEnd> peer,
                           const Credentials& maker)
    : SocketFile(std::move(end), maker), peer_(std::move(peer)) {}

namespace {

// Nothing will be received from `own` any more; its peer is notified.
void close_end(SocketEnd& own, SocketEnd* peer) {
  own.is_closed = true;
  if (peer != nullptr) {
    if (!own.packets.empty()) peer->error = ECONNRESET;
    peer->receives_no_more = true;
    peer->changed.wake();
  }
  own.clear();
  own.changed.wake();
}

}  // namespace

StreamSocket::~StreamSocket() {
  end_->space->unbind(*end_);
  end_->is_listening = false;
  // Connections that were never accepted: their peers are ends that only their connecting sockets hold.
  for (const auto& waiting : std::exchange(end_->pending, {})) {
    waiting->is_closed = true;
    waiting->clear();
    waiting->changed.wake();
    if (const auto other = waiting->connected_by.lock()) {
      other->error = ECONNRESET;
      other->receives_no_more = true;
      other->changed.wake();
    }
  }
  close_end(*end_, peer_.get());
}

void StreamSocket::join(Waiter& waiter) {
  waiter.join(end_->changed);
  if (const auto listener = full_listener_.lock()) waiter.join(listener->changed);
}

short StreamSocket::ready() {
  int events = 0;
  if (end_->error != 0) events |= POLLERR;
  if (end_->is_listening) {
    if (!end_->pending.empty()) events |= POLLIN | POLLRDNORM;
    return static_cast<short>(events);
  }
  if (peer_ == nullptr) return static_cast<short>(events | POLLOUT | POLLWRNORM | POLLHUP);
  if (!end_->packets.empty() || end_->receives_no_more || end_->error != 0) events |= POLLIN | POLLRDNORM;
  if (end_->receives_no_more) events |= POLLRDHUP;
  // TCP cannot distinguish a closed peer from one that only stopped sending.
  const bool is_gone = peer_->is_closed && !is_inet();
  if (is_gone || (end_->receives_no_more && sends_no_more_)) events |= POLLHUP;
  const bool has_room = peer_->room() >= peer_->capacity / 4;
  if (has_room || peer_->is_closed || sends_no_more_) events |= POLLOUT | POLLWRNORM;
  return static_cast<short>(events);
}

// -- connections

Try<std::shared_ptr<SocketEnd>> StreamSocket::find_listener(Caller&, const SocketAddress& to,
                                                            InetAddress& inet) const {
  std::shared_ptr<SocketEnd> found;
  if (is_inet()) {
    MEMBRANE_ASSIGN(inet, reachable(to));
    found = end_->space->find_inet(inet, end_->type);
  } else {
    MEMBRANE_ASSIGN(const UnixName name, unix_name_of(to));
    if (name.is_unnamed) return err(EINVAL);
    if (name.is_path && to.node == nullptr) return err(ECONNREFUSED);
    found = name.is_path ? end_->space->find_node(*to.node) : end_->space->find_abstract(name.abstract);
    if (found != nullptr && found->type != end_->type) return err(EPROTOTYPE);
  }
  if (found == nullptr || !found->is_listening) return err(ECONNREFUSED);
  return found;
}

void StreamSocket::name_ends(SocketEnd& theirs, const SocketEnd& listener, const InetAddress& to) const {
  theirs.name = listener.name;
  theirs.owner = listener.owner;
  theirs.local = to;
  theirs.remote = end_->local;
  end_->remote = to;
  theirs.passes_credentials = listener.passes_credentials;
}

Done StreamSocket::take_local_address(const InetAddress& to) {
  if (end_->local.port == 0) MEMBRANE_TRY(bind_to_any());
  if (!end_->local.is_any()) return {};
  const uint16_t port = end_->local.port;
  end_->local = loopback_like(to);
  end_->local.port = port;
  return {};
}

Done StreamSocket::connect_outside(const InetAddress& to) {
  MEMBRANE_TRY(take_local_address(to));
  auto theirs = std::make_shared<SocketEnd>(end_->space, end_->domain, end_->type);
  theirs->local = to;
  theirs->remote = end_->local;
  MEMBRANE_TRY(end_->space->network->connect(end_, theirs, to));
  theirs->is_outside = end_->has_peer_outside = true;
  end_->remote = to;
  peer_ = std::move(theirs);
  end_->changed.wake();
  return {};
}

Done StreamSocket::connect(Caller& caller, const SocketAddress& to) {
  if (end_->is_listening) return err(is_inet() ? EISCONN : EINVAL);
  if (peer_ != nullptr) return err(EISCONN);
  InetAddress inet;
  if (is_inet() && end_->space->network != nullptr) {
    MEMBRANE_ASSIGN(inet, reachable(to));
    if (end_->space->find_inet(inet, end_->type) == nullptr) return connect_outside(inet);
  }
  MEMBRANE_ASSIGN(const auto listener, find_listener(caller, to, inet));
  if (listener->pending.size() >= listener->backlog) {
    full_listener_ = listener;
    return err(EAGAIN);
  }
  full_listener_.reset();
  if (is_inet()) MEMBRANE_TRY(take_local_address(inet));
  auto theirs = std::make_shared<SocketEnd>(end_->space, listener->domain, end_->type);
  name_ends(*theirs, *listener, inet);
  theirs->connected_by = end_;
  end_->owner = sender_of(caller);
  peer_ = theirs;
  listener->pending.push_back(std::move(theirs));
  listener->changed.wake();
  end_->changed.wake();
  return {};
}

Done StreamSocket::listen(Caller& caller, int backlog) {
  if (peer_ != nullptr) return err(EINVAL);
  if (!is_inet() && end_->name.bytes.empty()) return err(EINVAL);
  if (is_inet()) {
    if (end_->local.port == 0) MEMBRANE_TRY(bind_to_any());
    if (end_->space->is_taken_for_listening(*end_)) return err(EADDRINUSE);
  }
  end_->is_listening = true;
  end_->owner = sender_of(caller);
  const size_t wanted = backlog < 0 ? kMostBacklog : static_cast<size_t>(backlog);
  end_->backlog = std::min(wanted, kMostBacklog) + 1;
  end_->changed.wake();
  return {};
}

Try<std::shared_ptr<SocketFile>> StreamSocket::accept(Caller& caller) {
  if (!end_->is_listening) return err(EINVAL);
  if (end_->pending.empty()) return err(EAGAIN);
  auto accepted = std::move(end_->pending.front());
  end_->pending.pop_front();
  end_->changed.wake();
  auto other = accepted->connected_by.lock();
  if (other == nullptr) {
    // The peer closed before it was accepted; what it sent can still be read.
    other = std::make_shared<SocketEnd>(end_->space, end_->domain, end_->type);
    other->is_closed = true;
    other->local = accepted->remote;
  }
  return std::make_shared<StreamSocket>(std::move(accepted), std::move(other), caller.credentials());
}

Done StreamSocket::shutdown(int how) {
  if (how < SHUT_RD || how > SHUT_RDWR) return err(EINVAL);
  if (end_->is_listening && how != SHUT_WR) {
    // As Linux: a listener of AF_INET stops listening.
    end_->is_listening = false;
    end_->changed.wake();
    return {};
  }
  if (peer_ == nullptr) return err(ENOTCONN);
  if (how != SHUT_WR) end_->receives_no_more = true;
  if (how != SHUT_RD) {
    sends_no_more_ = true;
    peer_->receives_no_more = true;
    peer_->changed.wake();
  }
  end_->changed.wake();
  return {};
}

Try<SocketAddress> StreamSocket::peer() const {
  if (peer_ == nullptr) return err(ENOTCONN);
  if (is_inet()) return socket_address_of(end_->remote, domain());
  return peer_->name.bytes.empty() ? unnamed_address(AF_UNIX) : peer_->name;
}

// -- bytes

Try<size_t> StreamSocket::send(Caller& caller, Buffer& from, const Outgoing& how) {
  if (!how.to.bytes.empty() && !is_inet()) return err(peer_ != nullptr ? EISCONN : EOPNOTSUPP);
  const bool was_connected = peer_ != nullptr;
  if (!was_connected && !is_inet()) return err(ENOTCONN);
  // The peer's SHUT_RD, which TCP does not report.
  const bool is_refused = was_connected && !is_inet() && peer_->receives_no_more;
  // TCP learns that a peer has closed only when the first bytes reach it.
  if (was_connected && is_inet() && peer_->is_closed && end_->error == 0 && !sends_no_more_ &&
      !std::exchange(has_been_reset_, true))
    return lose(from);
  if (!was_connected || sends_no_more_ || is_refused || peer_->is_closed) {
    if (end_->error != 0) return err(std::exchange(end_->error, 0));
    if ((how.flags & MSG_NOSIGNAL) == 0) caller.signal_self(SIGPIPE);
    return err(EPIPE);
  }
  if (is_inet() && !how.files.empty()) return err(EINVAL);
  if (how.files.size() > kMostFilesOfMessage) return err(EINVAL);
  if (is_stream() && from.size() == 0) return 0;
  MEMBRANE_ASSIGN(FilesInFlight files, end_->space->count(how.files));
  MEMBRANE_ASSIGN(const size_t sent, is_stream() ? send_bytes(caller, from, std::move(files))
                                                 : send_packet(caller, from, std::move(files)));
  peer_->changed.wake();
  return sent;
}

Try<size_t> StreamSocket::lose(Buffer& from) {
  std::array<std::byte, 4096> piece;
  size_t done = 0;
  while (from.size() > 0) {
    const auto taken = from.take(std::span(piece).first(std::min(piece.size(), from.size())));
    if (!taken || *taken == 0) return done > 0 ? Try<size_t>(done) : err(taken ? EFAULT : taken.error());
    done += *taken;
  }
  return done;
}

Try<size_t> StreamSocket::send_bytes(Caller& caller, Buffer& from, FilesInFlight files) {
  size_t done = 0;
  const Sender sender = sender_of(caller);
  while (from.size() > 0 && peer_->room() > Packet::kOverhead) {
    const size_t wanted = std::min({from.size(), peer_->room() - Packet::kOverhead, kMostPiece});
    Packet packet;
    packet.bytes.resize(wanted);
    const auto taken = from.take(packet.bytes);
    if (!taken || *taken == 0) return done > 0 ? Try<size_t>(done) : err(taken ? EFAULT : taken.error());
    packet.bytes.resize(*taken);
    packet.sender = sender;
    packet.files = std::exchange(files, {});  // with the first byte
    if (const Done added = peer_->append(std::move(packet)); !added)
      return done > 0 ? Try<size_t>(done) : err(added.error());
    done += *taken;
    if (*taken < wanted) break;
  }
  if (done == 0) return err(EAGAIN);
  return done;
}

Try<size_t> StreamSocket::send_packet(Caller& caller, Buffer& from, FilesInFlight files) {
  const size_t size = from.size();
  if (size > peer_->capacity - Packet::kOverhead) return err(EMSGSIZE);
  if (size + Packet::kOverhead > peer_->room()) return err(EAGAIN);
  Packet packet;
  packet.bytes.resize(size);
  if (size > 0) {
    MEMBRANE_ASSIGN(const size_t taken, from.take(packet.bytes));
    if (taken < size) return err(EFAULT);
  }
  packet.sender = sender_of(caller);
  packet.files = std::move(files);
  MEMBRANE_TRY(peer_->add(std::move(packet)));
  return size;
}

Try<Incoming> StreamSocket::receive(Caller&, Buffer& to, int how) {
  if (peer_ == nullptr) return err(end_->is_listening && !is_inet() ? EINVAL : ENOTCONN);
  Incoming got;
  if (end_->packets.empty()) {
    if (end_->error != 0) return err(std::exchange(end_->error, 0));
    if (end_->receives_no_more) return got;
    return err(EAGAIN);
  }
  if (is_stream() && to.size() == 0) return got;
  const bool stays = (how & MSG_PEEK) != 0;
  MEMBRANE_TRY(is_stream() ? receive_bytes(to, stays, got) : receive_packet(to, stays, got));
  got.is_end_of_record = !is_stream();
  if (!stays) peer_->changed.wake();
  return got;
}

// Receives as far as there is room and one sender; attached files end it.
Done StreamSocket::receive_bytes(Buffer& to, bool stays, Incoming& got) {
  got.sender = end_->packets.front().sender;
  for (size_t at = 0; at < end_->packets.size() && to.size() > 0;) {
    Packet& packet = end_->packets[at];
    const bool has_files = !packet.files.files.empty();
    if (got.size > 0 && (has_files || !(packet.sender == got.sender))) break;
    const size_t wanted = std::min(packet.size(), to.size());
    const auto put = to.put(std::span(packet.bytes).subspan(packet.begin, wanted));
    if (!put && got.size == 0) return std::unexpected(put.error());
    if (!put || *put == 0) break;
    got.size += *put;
    if (has_files) got.files = packet.files.files;
    if (stays) {
      ++at;
    } else {
      packet.files = {};
      end_->drop(*put, false);
    }
    if (has_files || *put < wanted) break;
  }
  got.whole_size = got.size;
  return {};
}

}  // namespace membrane::linux
