// Sending and receiving on sockets: sendto, recvfrom, sendmsg, recvmsg, sendmmsg, recvmmsg.
#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "linux/kernel/socket_calls.h"

namespace membrane::linux {
namespace {

constexpr size_t kMostControlBytes = 20480;  // as in Linux (optmem_max)
constexpr uint32_t kMostMessages = 1024;     // of one call
constexpr int kKnownSendFlags =
    MSG_DONTWAIT | MSG_NOSIGNAL | MSG_EOR | MSG_MORE | MSG_CONFIRM | MSG_DONTROUTE;

// struct cmsghdr; data follow, and the next begins at a multiple of 8.
struct ControlHeader {
  uint64_t length;
  int32_t level, type;
};
constexpr size_t control_space(size_t bytes) { return (bytes + 7) & ~size_t{7}; }

// -- sending

Try<std::vector<FileRef>> files_of(Call& call, std::span<const std::byte> data) {
  std::vector<FileRef> files;
  if (data.size() / sizeof(int) > SocketFile::kMostFilesOfMessage) return err(EINVAL);
  for (size_t at = 0; at + sizeof(int) <= data.size(); at += sizeof(int)) {
    int descriptor;
    std::memcpy(&descriptor, data.data() + at, sizeof descriptor);
    MEMBRANE_ASSIGN(FileRef file, any_file(call, descriptor));
    files.push_back(std::move(file));
  }
  return files;
}

// The control data of a message: files. Credentials are always the sender's, so those in a message are only
// checked.
Done read_control(Call& call, const msghdr& header, Outgoing& how) {
  if (header.msg_control == nullptr || header.msg_controllen == 0) return {};
  if (header.msg_controllen > kMostControlBytes) return err(ENOBUFS);
  std::vector<std::byte> bytes(header.msg_controllen);
  MEMBRANE_TRY(call.task.read_memory(reinterpret_cast<uint64_t>(header.msg_control), bytes));
  for (size_t at = 0; at + sizeof(ControlHeader) <= bytes.size();) {
    ControlHeader control;
    std::memcpy(&control, bytes.data() + at, sizeof control);
    if (control.length < sizeof control || control.length > bytes.size() - at) return err(EINVAL);
    const auto data = std::span(bytes).subspan(at + sizeof control, control.length - sizeof control);
    if (control.level == SOL_SOCKET && control.type == SCM_RIGHTS) {
      MEMBRANE_ASSIGN(std::vector<FileRef> files, files_of(call, data));
      how.files.insert(how.files.end(), files.begin(), files.end());
      if (how.files.size() > SocketFile::kMostFilesOfMessage) return err(EINVAL);
    } else if (control.level == SOL_SOCKET && control.type == SCM_CREDENTIALS) {
      if (data.size() != sizeof(ucred)) return err(EINVAL);
      ucred told;
      std::memcpy(&told, data.data(), sizeof told);
      const Credentials& own = who(call);
      const bool is_own = told.pid == call.process().id &&
                          (told.uid == own.uid || told.uid == own.euid || told.uid == own.suid);
      if (!is_own && own.euid != 0) return err(EPERM);
    } else if (control.level == SOL_SOCKET) {
      return err(EINVAL);
    }
    at += control_space(control.length);
  }
  return {};
}

Try<Outgoing> outgoing_of(Call& call, const SocketFile& socket, uint64_t address, int length, int flags) {
  Outgoing how = {.flags = flags};
  MEMBRANE_ASSIGN(how.to, read_address(call, address, length));
  if (socket.domain() == AF_UNIX) MEMBRANE_TRY(find_node(call, how.to));
  return how;
}

// Sends all bytes on a stream, however often it has to wait, unless the call counts messages
// (`is_one_of_many`).
int64_t send(Call& call, SocketFile& socket, UserBuffer& buffer, Outgoing how, bool is_one_of_many) {
  if ((how.flags & MSG_OOB) != 0) return -EOPNOTSUPP;
  if ((how.flags & ~kKnownSendFlags) != 0) how.flags &= kKnownSendFlags;
  uint64_t once = 0;
  uint64_t& sent = is_one_of_many ? once : call.kept();
  buffer.skip(sent);
  for (;;) {
    if (sent > 0) how.files.clear();
    const Try<size_t> got = socket.send(call.task, buffer, how);
    const bool waits = (how.flags & MSG_DONTWAIT) == 0 && (sent == 0 || !is_one_of_many);
    if (!got && got.error() == EAGAIN) {
      const int64_t waited = wait_for_socket(call, socket, waits, socket.send_limit());
      if (waited != kWaits && sent > 0) return static_cast<int64_t>(sent);
      if (waited == kWaits && !is_one_of_many) call.task.call_keeps_bytes = true;
      return waited;
    }
    if (!got) return sent > 0 ? static_cast<int64_t>(sent) : -got.error();
    sent += *got;
    if (socket.type() != SOCK_STREAM || *got == 0 || buffer.size() == 0) return static_cast<int64_t>(sent);
  }
}

Try<UserBuffer> buffer_of(Call& call, const msghdr& header) {
  if (header.msg_iovlen > kMostVectors) return err(EMSGSIZE);
  return UserBuffer::from_vectors(call.task, reinterpret_cast<uint64_t>(header.msg_iov), header.msg_iovlen);
}

int64_t send_message(Call& call, SocketFile& socket, uint64_t header_at, int flags, bool is_one_of_many) {
  CALL_ASSIGN(const auto header, call.get<msghdr>(header_at));
  CALL_ASSIGN(UserBuffer buffer, buffer_of(call, header));
  const auto length = static_cast<int>(std::min<socklen_t>(header.msg_namelen, SocketAddress::kMostBytes));
  const uint64_t name = length == 0 ? 0 : reinterpret_cast<uint64_t>(header.msg_name);
  CALL_ASSIGN(Outgoing how, outgoing_of(call, socket, name, length, flags));
  CALL_TRY(read_control(call, header, how));
  return send(call, socket, buffer, std::move(how), is_one_of_many);
}

// -- receiving

// Writes a message's control data, as far as it fits.
class Control {
 public:
  explicit Control(size_t room) : room_(room) {}
  [[nodiscard]] size_t room_for_data() const {
    const size_t used = control_space(bytes_.size()) + sizeof(ControlHeader);
    return room_ > used ? room_ - used : 0;
  }
  void add(int type, std::span<const std::byte> data) {
    if (room_for_data() == 0) return cut();
    if (data.size() > room_for_data()) {
      data = data.first(room_for_data());
      cut();
    }
    bytes_.resize(control_space(bytes_.size()));
    const ControlHeader header = {sizeof(ControlHeader) + data.size(), SOL_SOCKET, type};
    const auto head = std::as_bytes(std::span(&header, 1));
    bytes_.insert(bytes_.end(), head.begin(), head.end());
    bytes_.insert(bytes_.end(), data.begin(), data.end());
  }
  void cut() { is_cut_ = true; }
  [[nodiscard]] bool is_cut() const { return is_cut_; }
  // Padded where the room allows.
  [[nodiscard]] std::vector<std::byte> bytes() const {
    std::vector<std::byte> all = bytes_;
    all.resize(std::min(control_space(all.size()), room_));
    return all;
  }

 private:
  const size_t room_;
  std::vector<std::byte> bytes_;
  bool is_cut_ = false;
};

// New descriptors for the files of a message; files for which there is no room or no number are dropped.
void add_files(Call& call, const std::vector<FileRef>& files, bool closes_on_exec, Control& control) {
  if (files.empty()) return;
  std::vector<int> numbers;
  for (const FileRef& file : files) {
    if ((numbers.size() + 1) * sizeof(int) > control.room_for_data()) break;
    const auto number = add_file(call, file, closes_on_exec);
    if (!number) break;
    numbers.push_back(*number);
  }
  if (!numbers.empty()) control.add(SCM_RIGHTS, std::as_bytes(std::span(numbers)));
  if (numbers.size() < files.size()) control.cut();
}

// Waits, and with MSG_WAITALL fills the whole buffer from a stream.
Try<int64_t> receive(Call& call, SocketFile& socket, UserBuffer& buffer, int flags, Incoming& got) {
  if ((flags & (MSG_OOB | MSG_ERRQUEUE)) != 0) return err((flags & MSG_OOB) != 0 ? EINVAL : EAGAIN);
  const bool fills = (flags & MSG_WAITALL) != 0 && (flags & MSG_PEEK) == 0 && socket.type() == SOCK_STREAM;
  uint64_t once = 0;
  uint64_t& received = fills ? call.kept() : once;
  buffer.skip(received);
  for (;;) {
    auto piece = socket.receive(call.task, buffer, flags & MSG_PEEK);
    if (!piece && piece.error() == EAGAIN) {
      const int64_t waited =
          wait_for_socket(call, socket, (flags & MSG_DONTWAIT) == 0, socket.receive_limit());
      if (waited != kWaits && received > 0) return static_cast<int64_t>(received);
      if (waited == kWaits) {
        call.task.call_keeps_bytes = fills;
        return kWaits;
      }
      return err(static_cast<int>(-waited));
    }
    if (!piece) {
      if (received > 0) return static_cast<int64_t>(received);
      return err(piece.error());
    }
    received += piece->size;
    const bool is_whole = !fills || piece->size == 0 || buffer.size() == 0 || !piece->files.empty();
    got = std::move(*piece);
    if (is_whole) return static_cast<int64_t>(received);
  }
}

int64_t size_told(const SocketFile& socket, const Incoming& got, int64_t received, int flags) {
  const bool tells_whole = (flags & MSG_TRUNC) != 0 && socket.type() != SOCK_STREAM;
  return tells_whole ? static_cast<int64_t>(got.whole_size) : received;
}

int64_t receive_message(Call& call, SocketFile& socket, uint64_t header_at, int flags) {
  CALL_ASSIGN(const auto header, call.get<msghdr>(header_at));
  CALL_ASSIGN(UserBuffer buffer, buffer_of(call, header));
  Incoming got;
  CALL_ASSIGN(const int64_t received, receive(call, socket, buffer, flags, got));
  if (received == kWaits) return kWaits;
  Control control(header.msg_control == nullptr ? 0
                                                : std::min<size_t>(header.msg_controllen, kMostControlBytes));
  if (socket.passes_credentials()) {
    const ucred sender = {got.sender.process, got.sender.uid, got.sender.gid};
    control.add(SCM_CREDENTIALS, std::as_bytes(std::span(&sender, 1)));
  }
  add_files(call, got.files, (flags & MSG_CMSG_CLOEXEC) != 0, control);
  int told = flags & MSG_CMSG_CLOEXEC;
  if (got.whole_size > got.size && socket.type() != SOCK_STREAM) told |= MSG_TRUNC;
  if (got.is_end_of_record) told |= MSG_EOR;
  if (control.is_cut()) told |= MSG_CTRUNC;
  const std::vector<std::byte> bytes = control.bytes();
  if (!bytes.empty()) CALL_TRY(call.task.write_memory(reinterpret_cast<uint64_t>(header.msg_control), bytes));
  CALL_TRY(call.put(header_at + offsetof(msghdr, msg_controllen), bytes.size()));
  CALL_TRY(call.put(header_at + offsetof(msghdr, msg_flags), told));
  if (header.msg_name != nullptr) {
    const int room = static_cast<int>(std::min<socklen_t>(header.msg_namelen, INT32_MAX));
    CALL_TRY(write_address(call, got.from, reinterpret_cast<uint64_t>(header.msg_name), room));
    CALL_TRY(call.put(header_at + offsetof(msghdr, msg_namelen), static_cast<int>(got.from.bytes.size())));
  }
  return size_told(socket, got, received, flags);
}

// Calls that handle many messages keep the number done: a signal, or an error after the first message,
// returns that number.
template <typename One>
int64_t each_message(Call& call, uint64_t at, uint32_t count, const One& one) {
  uint64_t& done = call.kept();
  count = std::min(count, kMostMessages);
  while (done < count) {
    const uint64_t here = at + done * sizeof(mmsghdr);
    const int64_t got = one(here, done);
    if (got == kWaits) {
      call.task.call_keeps_bytes = true;
      return kWaits;
    }
    if (got < 0) return done > 0 ? static_cast<int64_t>(done) : got;
    if (const Done put = call.put(here + offsetof(mmsghdr, msg_len), static_cast<uint32_t>(got)); !put)
      return done > 0 ? static_cast<int64_t>(done) : -put.error();
    ++done;
  }
  return static_cast<int64_t>(done);
}

}  // namespace

int64_t sys_sendto(Call& call) {
  CALL_ASSIGN(const SocketRef socket, socket_at(call, call.int_arg(0)));
  CALL_ASSIGN(Outgoing how, outgoing_of(call, *socket, call.arg(4), call.int_arg(5), call.int_arg(3)));
  UserBuffer buffer(call.task, call.arg(1), call.arg(2));
  return send(call, *socket, buffer, std::move(how), false);
}

int64_t sys_sendmsg(Call& call) {
  CALL_ASSIGN(const SocketRef socket, socket_at(call, call.int_arg(0)));
  return send_message(call, *socket, call.arg(1), call.int_arg(2), false);
}

int64_t sys_sendmmsg(Call& call) {
  CALL_ASSIGN(const SocketRef socket, socket_at(call, call.int_arg(0)));
  return each_message(call, call.arg(1), static_cast<uint32_t>(call.arg(2)), [&](uint64_t at, uint64_t) {
    return send_message(call, *socket, at, call.int_arg(3), true);
  });
}

int64_t sys_recvfrom(Call& call) {
  const int flags = call.int_arg(3);
  CALL_ASSIGN(const SocketRef socket, socket_at(call, call.int_arg(0)));
  UserBuffer buffer(call.task, call.arg(1), call.arg(2));
  Incoming got;
  CALL_ASSIGN(const int64_t received, receive(call, *socket, buffer, flags, got));
  if (received == kWaits) return kWaits;
  if (call.arg(4) != 0) CALL_TRY(return_address(call, got.from, call.arg(4), call.arg(5)));
  return size_told(*socket, got, received, flags);
}

int64_t sys_recvmsg(Call& call) {
  CALL_ASSIGN(const SocketRef socket, socket_at(call, call.int_arg(0)));
  return receive_message(call, *socket, call.arg(1), call.int_arg(2));
}

// The time limit applies to the wait for any message; Linux checks it after each one.
int64_t sys_recvmmsg(Call& call) {
  const int flags = call.int_arg(3);
  CALL_ASSIGN(const SocketRef socket, socket_at(call, call.int_arg(0)));
  const bool has_limit = call.arg(4) != 0;
  return each_message(call, call.arg(1), static_cast<uint32_t>(call.arg(2)), [&](uint64_t at, uint64_t done) {
    int with = flags & ~(MSG_WAITALL | MSG_WAITFORONE);
    if (done > 0 && ((flags & MSG_WAITFORONE) != 0 || has_limit)) with |= MSG_DONTWAIT;
    return receive_message(call, *socket, at, with);
  });
}

}  // namespace membrane::linux
