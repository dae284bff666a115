// A host descriptor that closes itself, and messages with descriptors in them.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <span>
#include <utility>

namespace membrane::linux {

class HostFile {
 public:
  HostFile() = default;
  explicit HostFile(int number) : number_(number) {}
  HostFile(HostFile&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  HostFile& operator=(HostFile&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~HostFile() { close(); }

  [[nodiscard]] int number() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }
  [[nodiscard]] int release() { return std::exchange(number_, -1); }  // the caller must close it
  void close() {
    if (number_ >= 0) ::close(std::exchange(number_, -1));
  }

 private:
  int number_ = -1;
};

// Sends one message on a SOCK_SEQPACKET socket. Returns whether it was sent.
bool send_message(int socket, std::span<const std::byte> bytes, std::span<const int> descriptors);
// Receives a message of exactly that length, with the descriptor in it, if any.
bool receive_message(int socket, std::span<std::byte> bytes, HostFile* descriptor = nullptr);
// Both ends, closed on exec.
bool make_socket_pair(HostFile& one, HostFile& other);
// Nameless zeroed memory of this size.
HostFile make_memory(const char* name, size_t length);

}  // namespace membrane::linux
