#include "linux/files/datagram_socket.h"

#include <signal.h>

#include <algorithm>

namespace membrane::linux {
namespace {

constexpr size_t kMostOfInternet = 65507;
constexpr size_t kMostWaiting = 512;  // packets for one receiver

bool is_full(const SocketEnd& end, size_t size) {
  return end.packets.size() >= kMostWaiting || size + Packet::kOverhead > end.room();
}

}  // namespace

DatagramSocket::DatagramSocket(End end, const End& peer, const Credentials& maker)
    : SocketFile(std::move(end), maker), peer_(peer), is_connected_(true) {}

DatagramSocket::~DatagramSocket() {
  end_->space->unbind(*end_);
  end_->is_closed = true;
  end_->clear();
  end_->changed.wake();
}

short DatagramSocket::ready() {
  int events = 0;
  if (end_->error != 0) events |= POLLERR;
  if (!end_->packets.empty() || end_->receives_no_more || end_->error != 0) events |= POLLIN | POLLRDNORM;
  if (end_->receives_no_more) events |= POLLRDHUP;
  if (end_->receives_no_more && sends_no_more_) events |= POLLHUP;
  const End peer = peer_.lock();
  if (peer == nullptr || peer->is_closed || !is_full(*peer, 0)) events |= POLLOUT | POLLWRNORM;
  return static_cast<short>(events);
}

void DatagramSocket::join(Waiter& waiter) {
  waiter.join(end_->changed);
  if (const End peer = peer_.lock()) waiter.join(peer->changed);
  if (const End full = full_.lock()) waiter.join(full->changed);
}

Try<DatagramSocket::End> DatagramSocket::find(const SocketAddress& to, InetAddress& inet) const {
  if (is_inet()) {
    MEMBRANE_ASSIGN(inet, reachable(to));
    return end_->space->find_inet(inet, SOCK_DGRAM);
  }
  MEMBRANE_ASSIGN(const UnixName name, unix_name_of(to));
  if (name.is_unnamed) return err(EINVAL);
  End found;
  if (!name.is_path) found = end_->space->find_abstract(name.abstract);
  else if (to.node != nullptr) found = end_->space->find_node(*to.node);
  if (found == nullptr) return err(ECONNREFUSED);
  if (found->type != SOCK_DGRAM) return err(EPROTOTYPE);
  return found;
}

Done DatagramSocket::connect(Caller& caller, const SocketAddress& to) {
  if (to.family() == AF_UNSPEC && to.bytes.size() >= sizeof(sa_family_t)) {
    is_connected_ = false;
    peer_.reset();
    end_->remote = {};
    return {};
  }
  InetAddress inet;
  MEMBRANE_ASSIGN(const End found, find(to, inet));
  if (is_inet()) {
    if (end_->local.port == 0) MEMBRANE_TRY(bind_to_any());
    if (end_->local.is_any()) {
      const uint16_t port = end_->local.port;
      end_->local = loopback_like(inet);
      end_->local.port = port;
    }
    end_->remote = inet;
  } else {
    peer_ = found;
  }
  end_->owner = sender_of(caller);
  is_connected_ = true;
  end_->changed.wake();
  return {};
}

Done DatagramSocket::shutdown(int how) {
  if (how < SHUT_RD || how > SHUT_RDWR) return err(EINVAL);
  if (!is_connected_) return err(ENOTCONN);
  if (how != SHUT_WR) end_->receives_no_more = true;
  if (how != SHUT_RD) sends_no_more_ = true;
  end_->changed.wake();
  return {};
}

Try<SocketAddress> DatagramSocket::peer() const {
  if (!is_connected_) return err(ENOTCONN);
  if (is_inet()) return socket_address_of(end_->remote, domain());
  const End peer = peer_.lock();
  if (peer == nullptr) return err(ENOTCONN);
  return peer->name.bytes.empty() ? unnamed_address(AF_UNIX) : peer->name;
}

// -- packets

Try<DatagramSocket::End> DatagramSocket::receiver_of(const Outgoing& how, InetAddress& inet) const {
  if (!how.to.bytes.empty()) return find(how.to, inet);
  if (!is_connected_) return err(is_inet() ? EDESTADDRREQ : ENOTCONN);
  if (is_inet()) {
    inet = end_->remote;
    return end_->space->find_inet(inet, SOCK_DGRAM);
  }
  End peer = peer_.lock();
  if (peer == nullptr || peer->is_closed) return err(ECONNREFUSED);
  return peer;
}

Try<size_t> DatagramSocket::send(Caller& caller, Buffer& from, const Outgoing& how) {
  if (sends_no_more_) {
    if ((how.flags & MSG_NOSIGNAL) == 0) caller.signal_self(SIGPIPE);
    return err(EPIPE);
  }
  if (end_->error != 0) return err(std::exchange(end_->error, 0));
  if (how.files.size() > kMostFilesOfMessage || (is_inet() && !how.files.empty())) return err(EINVAL);
  InetAddress inet;
  MEMBRANE_ASSIGN(const End receiver, receiver_of(how, inet));
  if (is_inet() && end_->local.port == 0) MEMBRANE_TRY(bind_to_any());
  const size_t size = from.size();
  if (size > (is_inet() ? kMostOfInternet : SocketEnd::kUsualCapacity - Packet::kOverhead))
    return err(EMSGSIZE);
  if (!is_inet()) MEMBRANE_TRY(check_room(receiver, size));
  Packet packet;
  MEMBRANE_ASSIGN(packet.files, end_->space->count(how.files));
  packet.sender = sender_of(caller);
  packet.bytes.resize(size);
  if (size > 0) {
    MEMBRANE_ASSIGN(const size_t taken, from.take(packet.bytes));
    if (taken < size) return err(EFAULT);
  }
  if (is_inet()) {
    send_inet(std::move(packet), receiver, inet);
    return size;
  }
  packet.from = end_->name;
  MEMBRANE_TRY(receiver->add(std::move(packet)));
  receiver->changed.wake();
  return size;
}

Done DatagramSocket::check_room(const End& receiver, size_t size) {
  if (receiver->receives_no_more) return err(EPIPE);
  if (size + Packet::kOverhead > receiver->capacity) return err(EMSGSIZE);
  if (!is_full(*receiver, size)) return {};
  full_ = receiver;
  return err(EAGAIN);
}

void DatagramSocket::send_inet(Packet packet, const End& receiver, const InetAddress& to) {
  if (receiver == nullptr && end_->space->network != nullptr) {
    if (const auto answer = end_->space->network->answer(to, packet.bytes)) return take_answer(*answer, to);
  }
  if (receiver == nullptr) {
    // Reports what an ICMP message would report.
    if (is_connected_) end_->error = ECONNREFUSED;
    return;
  }
  InetAddress own = end_->local.is_any() ? loopback_like(to) : end_->local;
  own.port = end_->local.port;
  packet.from = socket_address_of(own, receiver->domain);
  const bool is_for_it = receiver->remote.port == 0 || receiver->remote == own;
  if (!is_for_it || is_full(*receiver, packet.size())) return;
  if (receiver->add(std::move(packet))) receiver->changed.wake();
}

void DatagramSocket::take_answer(std::string_view answer, const InetAddress& from) {
  Packet packet;
  const auto bytes = std::as_bytes(std::span(answer));
  packet.bytes.assign(bytes.begin(), bytes.end());
  packet.from = socket_address_of(from, domain());
  if (is_full(*end_, packet.size())) return;
  if (end_->add(std::move(packet))) end_->changed.wake();
}

Try<Incoming> DatagramSocket::receive(Caller&, Buffer& to, int how) {
  Incoming got;
  if (end_->packets.empty()) {
    if (end_->error != 0) return err(std::exchange(end_->error, 0));
    if (end_->receives_no_more) return got;
    return err(EAGAIN);
  }
  const bool stays = (how & MSG_PEEK) != 0;
  got.from = end_->packets.front().from;
  MEMBRANE_TRY(receive_packet(to, stays, got));
  if (stays) return got;
  end_->changed.wake();  // those who send
  return got;
}

}  // namespace membrane::linux
