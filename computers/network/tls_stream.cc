#include "computers/network/tls_stream.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/openssl.h"

namespace membrane::computers {
namespace {

using host::Errno;
using host::HostResult;

constexpr size_t kPieceBytes = 16u << 10;

// The connection exists, so the table is loaded.
const OpenSslApi& api() { return **openssl(); }

// By the last error of this thread.
std::string reason() {
  const unsigned long code = api().last_error();
  const char* const why = api().reason_of(code);
  std::string text = why == nullptr ? "no reason" : why;
  const int number = ERR_GET_REASON(code);
  if (number == SSL_R_TLSV1_ALERT_UNKNOWN_CA || number == SSL_R_SSLV3_ALERT_BAD_CERTIFICATE ||
      number == SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN)
    text += "; it uses its own certificates: add /sys/membrane/ca.pem to them";
  return text;
}

}  // namespace

void TlsStream::Free::operator()(SSL* of) const { api().connection_free(of); }

HostResult<std::unique_ptr<TlsStream>> TlsStream::accept(SocketStream& socket, std::string_view first,
                                                         const std::shared_ptr<SSL_CTX>& context) {
  std::unique_ptr<TlsStream> made(new TlsStream(socket));
  if (!made->open(context)) return host::refuse(Errno::kHost, "OpenSSL could not begin a connection.");
  if (auto done = made->shake_hands(first); !done) return std::unexpected(std::move(done).error());
  return made;
}

bool TlsStream::open(const std::shared_ptr<SSL_CTX>& context) {
  connection_.reset(api().connection_new(context.get()));
  if (connection_ == nullptr) return false;
  from_program_ = api().bio_new(api().bio_memory());
  to_program_ = api().bio_new(api().bio_memory());
  if (from_program_ == nullptr || to_program_ == nullptr) {
    api().bio_free(from_program_);
    api().bio_free(to_program_);
    return false;
  }
  api().set_bios(connection_.get(), from_program_, to_program_);
  api().set_accepting(connection_.get());
  return true;
}

HostResult<void> TlsStream::shake_hands(std::string_view first) {
  const auto broken = [](std::string why) {
    host::HostError error = {Errno::kProtocol, std::move(why), "", true};
    return std::unexpected(std::move(error));
  };
  if (!feed(first)) return broken("The program's first message is too long.");
  for (;;) {
    api().clear_errors();
    const int done = api().handshake(connection_.get());
    const int error = done == 1 ? SSL_ERROR_NONE : api().error_of(connection_.get(), done);
    if (done != 1 && error != SSL_ERROR_WANT_READ) {
      const std::string why = reason();
      static_cast<void>(flush());  // the alert
      return broken("The program and the sandbox's authority do not agree on TLS: " + why + ".");
    }
    if (!flush()) return broken("The program ended the connection before it was encrypted.");
    if (done == 1) break;
    if (silent_bytes_ > kMostHandshakeBytes) return broken("The program's handshake is too long.");
    if (!feed_more()) return broken("The program did not end its handshake.");
  }
  silent_bytes_ = 0;
  return {};
}

bool TlsStream::feed(std::string_view bytes) {
  silent_bytes_ += bytes.size();
  return std::cmp_equal(api().bio_write(from_program_, bytes.data(), static_cast<int>(bytes.size())),
                        bytes.size());
}

bool TlsStream::feed_more() {
  std::array<char, kPieceBytes> piece;
  const size_t got = socket_.read(piece);
  return got > 0 && feed({piece.data(), got});
}

bool TlsStream::flush() {
  std::array<char, kPieceBytes> piece;
  for (;;) {
    const int got = api().bio_read(to_program_, piece.data(), static_cast<int>(piece.size()));
    if (got <= 0) return true;
    if (!socket_.write({piece.data(), static_cast<size_t>(got)})) return false;
  }
}

size_t TlsStream::read(std::span<char> to) {
  for (;;) {
    api().clear_errors();
    size_t got = 0;
    const int done = api().read(connection_.get(), to.data(), to.size(), &got);
    if (done == 1) {
      silent_bytes_ = 0;
      return got;
    }
    const int error = api().error_of(connection_.get(), done);
    if (!flush() || error != SSL_ERROR_WANT_READ || silent_bytes_ > kMostSilentBytes || !feed_more())
      return 0;
  }
}

bool TlsStream::write(std::string_view bytes) {
  while (!bytes.empty()) {
    api().clear_errors();
    size_t taken = 0;
    const std::string_view piece = bytes.substr(0, kPieceBytes);
    if (api().write(connection_.get(), piece.data(), piece.size(), &taken) != 1 || !flush()) return false;
    bytes.remove_prefix(taken);
  }
  return true;
}

void TlsStream::end() {
  api().clear_errors();
  api().shut_down(connection_.get());
  static_cast<void>(flush());
  socket_.end();
}

}  // namespace membrane::computers
