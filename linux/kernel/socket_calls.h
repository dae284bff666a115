// What the calls of sockets share: descriptors, addresses, waiting. Threads: the kernel's thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "linux/files/socket_file.h"
#include "linux/kernel/file_calls.h"

namespace membrane::linux {

using SocketRef = std::shared_ptr<SocketFile>;

// Errors: EBADF, ENOTSOCK.
Try<SocketRef> socket_at(Call& call, int descriptor);

// Of guest memory; no bytes for a null pointer. The node of a path of AF_UNIX is not looked for. Errors: EFAULT, EINVAL.
Try<SocketAddress> read_address(Call& call, uint64_t at, int length);
// The node of its path, if it has one. Errors: ECONNREFUSED for anything but a socket, and those of a walk.
Done find_node(Call& call, SocketAddress& address);
// As much of it as `room` bytes take. Errors: EFAULT, EINVAL for a negative room.
Done write_address(Call& call, const SocketAddress& address, uint64_t at, int room);
// The same with the room at an address, where the whole length is put. Nothing without `at`.
Done return_address(Call& call, const SocketAddress& address, uint64_t at, uint64_t length_at);

// After EAGAIN: waits for the file, or answers EAGAIN when the call does not wait or the limit (zero: none) is over.
int64_t wait_for_socket(Call& call, SocketFile& socket, bool waits, std::chrono::microseconds limit);

}  // namespace membrane::linux
