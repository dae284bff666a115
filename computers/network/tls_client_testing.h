// A program of a sandbox that speaks TLS with OpenSSL over one end of a socket pair, and trusts what the test
// passes.
#pragma once

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <signal.h>

#include <array>
#include <memory>
#include <string>
#include <string_view>

namespace membrane::computers {

class TlsClient {
 public:
  struct Wishes {
    std::string trusted = {};  // certificates in PEM
    std::string server = {};   // a name or an address, which the certificate must be of
    std::string_view protocols = {"\x08http/1.1", 9};  // as ALPN lists them; "" for none
    bool sends_name = true;
  };
  // `socket` blocks and remains the caller's.
  TlsClient(int socket, const Wishes& wishes)
      : context_(SSL_CTX_new(TLS_client_method()), SSL_CTX_free), connection_(nullptr, SSL_free) {
    ::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes to whatever is there
    SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
    const std::unique_ptr<BIO, decltype(&BIO_free)> text(
        BIO_new_mem_buf(wishes.trusted.data(), static_cast<int>(wishes.trusted.size())), BIO_free);
    while (X509* const each = PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr)) {
      X509_STORE_add_cert(SSL_CTX_get_cert_store(context_.get()), each);
      X509_free(each);
    }
    connection_.reset(SSL_new(context_.get()));
    X509_VERIFY_PARAM* const parameters = SSL_get0_param(connection_.get());
    const bool is_address = X509_VERIFY_PARAM_set1_ip_asc(parameters, wishes.server.c_str()) == 1;
    if (!is_address) SSL_set1_host(connection_.get(), wishes.server.c_str());
    if (!is_address && wishes.sends_name) SSL_set_tlsext_host_name(connection_.get(), wishes.server.c_str());
    if (!wishes.protocols.empty())
      SSL_set_alpn_protos(connection_.get(), reinterpret_cast<const unsigned char*>(wishes.protocols.data()),
                          static_cast<unsigned>(wishes.protocols.size()));
    SSL_set_fd(connection_.get(), socket);
    ERR_clear_error();
    is_open_ = SSL_connect(connection_.get()) == 1;
    if (!is_open_) {
      const char* const why = ERR_reason_error_string(ERR_peek_error());
      error_ = why == nullptr ? "the connection ended" : why;
    }
  }
  [[nodiscard]] bool is_open() const { return is_open_; }
  [[nodiscard]] const std::string& error() const { return error_; }
  [[nodiscard]] std::string protocol() const {
    const unsigned char* bytes = nullptr;
    unsigned count = 0;
    SSL_get0_alpn_selected(connection_.get(), &bytes, &count);
    return {reinterpret_cast<const char*>(bytes), count};
  }
  bool send(std::string_view bytes) {
    return is_open_ && SSL_write(connection_.get(), bytes.data(), static_cast<int>(bytes.size())) ==
                           static_cast<int>(bytes.size());
  }
  bool change_key() {
    return SSL_key_update(connection_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) == 1 &&
           SSL_do_handshake(connection_.get()) == 1;
  }
  // Reads until the server closes.
  std::string read_all() {
    std::string all;
    std::array<char, 4096> piece;
    for (int got; (got = SSL_read(connection_.get(), piece.data(), static_cast<int>(piece.size()))) > 0;)
      all.append(piece.data(), static_cast<size_t>(got));
    has_ended_well_ = SSL_get_shutdown(connection_.get()) == SSL_RECEIVED_SHUTDOWN;
    return all;
  }
  [[nodiscard]] bool has_ended_well() const { return has_ended_well_; }

 private:
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
  std::unique_ptr<SSL, decltype(&SSL_free)> connection_;
  bool is_open_ = false, has_ended_well_ = false;
  std::string error_;
};

}  // namespace membrane::computers
