// The server side of a program's TLS connection: decrypts what the program sends and encrypts what is
// written, with OpenSSL, between two memory buffers.
//
// Bounded: the handshake by kMostHandshakeBytes and the stream's deadline; later, bytes without content for
// the reader by kMostSilentBytes. It reads at most one piece ahead of the reader, and buffers no writes.
//
// Threads: as for a Stream.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "computers/network/stream.h"
#include "host/errno.h"

struct bio_st;  // OpenSSL's BIO, SSL and SSL_CTX
struct ssl_st;
struct ssl_ctx_st;

namespace membrane::computers {

class TlsStream final : public Stream {
 public:
  static constexpr size_t kMostHandshakeBytes = 128u << 10, kMostSilentBytes = 128u << 10;

  // `first`: bytes of the program's that were already read. Errors: EPROTO for a handshake that the program
  // broke or never finished, after it was notified; EHOST.
  static host::HostResult<std::unique_ptr<TlsStream>> accept(SocketStream& socket, std::string_view first,
                                                             const std::shared_ptr<ssl_ctx_st>& context);
  size_t read(std::span<char> to) override;
  bool write(std::string_view bytes) override;
  void end() override;

 private:
  struct Free {
    void operator()(ssl_st* of) const;
  };
  explicit TlsStream(SocketStream& socket) : socket_(socket) {}
  bool open(const std::shared_ptr<ssl_ctx_st>& context);
  host::HostResult<void> shake_hands(std::string_view first);
  bool feed(std::string_view bytes);
  // Reads what the program sends next. False when nothing comes.
  bool feed_more();
  // Sends everything that waits for the program.
  bool flush();

  SocketStream& socket_;
  std::unique_ptr<ssl_st, Free> connection_;                // which holds its context
  bio_st *from_program_ = nullptr, *to_program_ = nullptr;  // the connection's
  size_t silent_bytes_ = 0;                                 // since the last byte for the reader
};

}  // namespace membrane::computers
