// A program's TLS connection as the server that it means: what the program encrypts is read, and what is written is encrypted, by
// OpenSSL, from one buffer of memory into another.
//
// Bounded: the handshake by kMostHandshakeBytes and the stream's deadline; later, what comes without a byte for the reader by
// kMostSilentBytes. Nothing is read ahead of what is asked for but one piece, and nothing waits to be written.
//
// Threads: as a Stream.
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

  // `first`: what was read of the program's already. Errors: EPROTO for a handshake that the program broke or never ended, which has been
  // told by then; EHOST.
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
  // What the program sends next. False when nothing comes.
  bool feed_more();
  // All that waits for the program.
  bool flush();

  SocketStream& socket_;
  std::unique_ptr<ssl_st, Free> connection_;                // which holds its context
  bio_st *from_program_ = nullptr, *to_program_ = nullptr;  // the connection's
  size_t silent_bytes_ = 0;                                 // since the last byte for the reader
};

}  // namespace membrane::computers
