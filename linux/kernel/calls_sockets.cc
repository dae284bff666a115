// Sockets: creating, naming, connecting, and their options. calls_messages.cc sends and receives.
#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>

#include "linux/kernel/kernel.h"
#include "linux/kernel/socket_calls.h"

namespace membrane::linux {
namespace {

constexpr size_t kMostOptionBytes = 256;

const std::shared_ptr<SocketSpace>& sockets_of(Kernel& kernel) {
  if (kernel.sockets == nullptr) kernel.sockets = std::make_shared<SocketSpace>();
  return kernel.sockets;
}

// A path of AF_UNIX becomes a node, which is removed again when binding fails.
Done bind_to_path(Call& call, SocketFile& socket, SocketAddress& address, const std::string& path) {
  MEMBRANE_TRY(socket.can_bind());
  MEMBRANE_ASSIGN(const Parent parent, parent_from(call, AT_FDCWD, path));
  Node& directory = *parent.directory->node;
  const Attributes attributes = directory.attributes();
  MEMBRANE_TRY(may(who(call), attributes, W_OK | X_OK));
  auto made = directory.create(parent.name, new_node(call, attributes, S_IFSOCK | 0777));
  if (!made) return err(made.error() == EEXIST ? EADDRINUSE : made.error());
  address.node = std::move(*made);
  const Done bound = socket.bind(call.task, address);
  if (!bound) static_cast<void>(directory.unlink(parent.name));
  return bound;
}

int64_t accept(Call& call, int flags) {
  if ((flags & ~(SOCK_CLOEXEC | SOCK_NONBLOCK)) != 0) return -EINVAL;
  CALL_ASSIGN(const SocketRef socket, socket_at(call, call.int_arg(0)));
  auto accepted = socket->accept(call.task);
  if (!accepted && accepted.error() == EAGAIN)
    return wait_for_socket(call, *socket, true, socket->receive_limit());
  if (!accepted) return -accepted.error();
  if ((flags & SOCK_NONBLOCK) != 0) (*accepted)->flags |= O_NONBLOCK;
  if (call.arg(1) != 0)
    CALL_TRY(return_address(call, (*accepted)->peer().value_or(SocketAddress()), call.arg(1), call.arg(2)));
  return answer(add_file(call, std::move(*accepted), (flags & SOCK_CLOEXEC) != 0));
}

}  // namespace

// -- shared

Try<SocketRef> socket_at(Call& call, int descriptor) {
  MEMBRANE_ASSIGN(const FileRef file, open_file(call, descriptor));
  auto socket = std::dynamic_pointer_cast<SocketFile>(file);
  if (socket == nullptr) return err(ENOTSOCK);
  return socket;
}

Try<SocketAddress> read_address(Call& call, uint64_t at, int length) {
  SocketAddress address;
  if (at == 0) return address;
  if (length < 0 || static_cast<size_t>(length) > SocketAddress::kMostBytes) return err(EINVAL);
  address.bytes.resize(static_cast<size_t>(length));
  MEMBRANE_TRY(call.task.read_memory(at, std::as_writable_bytes(std::span(address.bytes))));
  return address;
}

Done find_node(Call& call, SocketAddress& address) {
  const auto path = address.path();
  if (!path) return {};
  MEMBRANE_ASSIGN(const LocationRef at, walk_from(call, AT_FDCWD, *path));
  if (at->node->type() != S_IFSOCK) return err(ECONNREFUSED);
  MEMBRANE_TRY(may(who(call), at->node->attributes(), W_OK));
  address.node = at->node;
  return {};
}

Done write_address(Call& call, const SocketAddress& address, uint64_t at, int room) {
  if (room < 0) return err(EINVAL);
  const size_t count = std::min(address.bytes.size(), static_cast<size_t>(room));
  return call.task.write_memory(at, std::as_bytes(std::span(address.bytes).first(count)));
}

Done return_address(Call& call, const SocketAddress& address, uint64_t at, uint64_t length_at) {
  if (at == 0) return {};
  MEMBRANE_ASSIGN(const int room, call.get<int>(length_at));
  MEMBRANE_TRY(write_address(call, address, at, room));
  return call.put(length_at, static_cast<int>(address.bytes.size()));
}

int64_t wait_for_socket(Call& call, SocketFile& socket, bool waits, std::chrono::microseconds limit) {
  if (!waits || (socket.flags & O_NONBLOCK) != 0 || call.is_late()) return -EAGAIN;
  call.join(socket);
  constexpr auto kForever = std::chrono::hours(24 * 365);  // no clock is late by then
  if (limit.count() == 0 || limit > kForever) return call.wait();
  return call.wait_until(call.kernel.steady_now() + limit, OnSignal::kInterrupt);
}

// -- calls

int64_t sys_socket(Call& call) {
  const int type = call.int_arg(1);
  CALL_ASSIGN(SocketRef made,
              make_socket(sockets_of(call.kernel), call.task, call.int_arg(0), type, call.int_arg(2)));
  return answer(add_file(call, std::move(made), (type & SOCK_CLOEXEC) != 0));
}

int64_t sys_socketpair(Call& call) {
  const int type = call.int_arg(1);
  const bool closes_on_exec = (type & SOCK_CLOEXEC) != 0;
  CALL_ASSIGN(SocketPair pair,
              make_socket_pair(sockets_of(call.kernel), call.task, call.int_arg(0), type, call.int_arg(2)));
  CALL_ASSIGN(const int first, add_file(call, std::move(pair.first), closes_on_exec));
  const Try<int> second = add_file(call, std::move(pair.second), closes_on_exec);
  Done done = second ? call.put(call.arg(3), std::array<int, 2>{first, *second}) : err(second.error());
  if (!done) {
    static_cast<void>(call.process().descriptors->remove(first));
    if (second) static_cast<void>(call.process().descriptors->remove(*second));
  }
  return answer(done);
}

int64_t sys_bind(Call& call) {
  CALL_ASSIGN(const SocketRef socket, socket_at(call, call.int_arg(0)));
  CALL_ASSIGN(SocketAddress address, read_address(call, call.arg(1), call.int_arg(2)));
  const auto path = socket->domain() == AF_UNIX ? address.path() : std::nullopt;
  if (path) return answer(bind_to_path(call, *socket, address, *path));
  return answer(socket->bind(call.task, address));
}

int64_t sys_listen(Call& call) {
  CALL_ASSIGN(const SocketRef socket, socket_at(call, call.int_arg(0)));
  return answer(socket->listen(call.task, call.int_arg(1)));
}

int64_t sys_accept(Call& call) { return accept(call, 0); }
int64_t sys_accept4(Call& call) { return accept(call, call.int_arg(3)); }

int64_t sys_connect(Call& call) {
  CALL_ASSIGN(const SocketRef socket, socket_at(call, call.int_arg(0)));
  CALL_ASSIGN(SocketAddress address, read_address(call, call.arg(1), call.int_arg(2)));
  if (socket->domain() == AF_UNIX) CALL_TRY(find_node(call, address));
  const Done connected = socket->connect(call.task, address);
  if (!connected && connected.error() == EAGAIN)
    return wait_for_socket(call, *socket, true, socket->send_limit());
  // A non-blocking TCP connect reports its result later, even though it is already known.
  const bool is_tcp = socket->domain() != AF_UNIX && socket->type() == SOCK_STREAM;
  if (is_tcp && (socket->flags & O_NONBLOCK) != 0) {
    if (connected) return -EINPROGRESS;
    if (connected.error() == ECONNREFUSED) {
      socket->end().error = ECONNREFUSED;
      socket->end().changed.wake();
      return -EINPROGRESS;
    }
  }
  return answer(connected);
}

int64_t sys_shutdown(Call& call) {
  CALL_ASSIGN(const SocketRef socket, socket_at(call, call.int_arg(0)));
  return answer(socket->shutdown(call.int_arg(1)));
}

int64_t sys_getsockname(Call& call) {
  CALL_ASSIGN(const SocketRef socket, socket_at(call, call.int_arg(0)));
  return answer(return_address(call, socket->name(), call.arg(1), call.arg(2)));
}

int64_t sys_getpeername(Call& call) {
  CALL_ASSIGN(const SocketRef socket, socket_at(call, call.int_arg(0)));
  CALL_ASSIGN(const SocketAddress peer, socket->peer());
  return answer(return_address(call, peer, call.arg(1), call.arg(2)));
}

int64_t sys_setsockopt(Call& call) {
  CALL_ASSIGN(const SocketRef socket, socket_at(call, call.int_arg(0)));
  const int length = call.int_arg(4);
  if (length < 0) return -EINVAL;
  std::array<std::byte, kMostOptionBytes> bytes;
  const auto value = std::span(bytes).first(std::min(static_cast<size_t>(length), bytes.size()));
  CALL_TRY(call.task.read_memory(call.arg(3), value));
  return answer(socket->set_option(call.int_arg(1), call.int_arg(2), value));
}

int64_t sys_getsockopt(Call& call) {
  CALL_ASSIGN(const SocketRef socket, socket_at(call, call.int_arg(0)));
  CALL_ASSIGN(const int room, call.get<int>(call.arg(4)));
  if (room < 0) return -EINVAL;
  CALL_ASSIGN(const std::vector<std::byte> value, socket->option(call.int_arg(1), call.int_arg(2)));
  const size_t count = std::min(value.size(), static_cast<size_t>(room));
  CALL_TRY(call.task.write_memory(call.arg(3), std::span(value).first(count)));
  return answer(call.put(call.arg(4), static_cast<int>(count)));
}

}  // namespace membrane::linux
