// Shared by the handlers of socket calls: descriptors, addresses, waiting. Threads: the kernel's thread.
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

// Reads an address from guest memory; empty for a null pointer. Does not look up the node of an AF_UNIX path.
// Errors: EFAULT, EINVAL.
Try<SocketAddress> read_address(Call& call, uint64_t at, int length);
// Finds the node of its path, if it has one. Errors: ECONNREFUSED for a node that is not a socket, and those
// of a walk.
Done find_node(Call& call, SocketAddress& address);
// Writes as much of it as fits in `room` bytes. Errors: EFAULT, EINVAL for a negative room.
Done write_address(Call& call, const SocketAddress& address, uint64_t at, int room);
// The same, where guest memory holds the room and receives the whole length. Does nothing without `at`.
Done return_address(Call& call, const SocketAddress& address, uint64_t at, uint64_t length_at);

// After EAGAIN: waits for the file, or returns EAGAIN when the call does not block or the limit (zero: none)
// has passed.
int64_t wait_for_socket(Call& call, SocketFile& socket, bool waits, std::chrono::microseconds limit);

}  // namespace membrane::linux
