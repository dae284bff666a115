// OpenSSL's TLS and certificates, loaded when the first connection needs them.
//
// Like libcurl (base/curl.h), libssl is not linked, since loading it costs more than most runs. Types and constants
// come from its headers. Code that only hashes or signs loads libcrypto alone (sha256.cc, ed25519.cc).
//
// Threads: openssl() may be called from any thread; the table is immutable.
#pragma once

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/result.h"

namespace membrane {

// X(member, function): every libcrypto function that TLS needs here.
#define MEMBRANE_TLS_CRYPTO_FUNCTIONS(X)     \
  X(bio_new, BIO_new)                        \
  X(bio_free, BIO_free)                      \
  X(bio_memory, BIO_s_mem)                   \
  X(bio_read, BIO_read)                      \
  X(bio_write, BIO_write)                    \
  X(bio_control, BIO_ctrl)                   \
  X(clear_errors, ERR_clear_error)           \
  X(last_error, ERR_peek_last_error)         \
  X(reason_of, ERR_reason_error_string)      \
  X(make_key, EVP_PKEY_Q_keygen)             \
  X(key_free, EVP_PKEY_free)                 \
  X(sha256, EVP_sha256)                      \
  X(certificate_new, X509_new)               \
  X(certificate_free, X509_free)             \
  X(set_version, X509_set_version)           \
  X(serial_number, X509_get_serialNumber)    \
  X(set_integer, ASN1_INTEGER_set_uint64)    \
  X(not_before, X509_getm_notBefore)         \
  X(not_after, X509_getm_notAfter)           \
  X(set_time, ASN1_TIME_set)                 \
  X(set_key, X509_set_pubkey)                \
  X(subject_of, X509_get_subject_name)       \
  X(add_to_name, X509_NAME_add_entry_by_txt) \
  X(set_issuer, X509_set_issuer_name)        \
  X(set_extension_context, X509V3_set_ctx)   \
  X(make_extension, X509V3_EXT_conf_nid)     \
  X(extension_free, X509_EXTENSION_free)     \
  X(add_extension, X509_add_ext)             \
  X(sign_certificate, X509_sign)             \
  X(write_pem, PEM_write_bio_X509)

// The same for libssl.
#define MEMBRANE_TLS_FUNCTIONS(X)                     \
  X(server_method, TLS_server_method)                 \
  X(context_new, SSL_CTX_new)                         \
  X(context_free, SSL_CTX_free)                       \
  X(context_control, SSL_CTX_ctrl)                    \
  X(context_set_options, SSL_CTX_set_options)         \
  X(context_set_tickets, SSL_CTX_set_num_tickets)     \
  X(context_use_certificate, SSL_CTX_use_certificate) \
  X(context_use_key, SSL_CTX_use_PrivateKey)          \
  X(context_set_alpn, SSL_CTX_set_alpn_select_cb)     \
  X(choose_protocol, SSL_select_next_proto)           \
  X(connection_new, SSL_new)                          \
  X(connection_free, SSL_free)                        \
  X(set_accepting, SSL_set_accept_state)              \
  X(set_bios, SSL_set_bio)                            \
  X(handshake, SSL_do_handshake)                      \
  X(read, SSL_read_ex)                                \
  X(write, SSL_write_ex)                              \
  X(shut_down, SSL_shutdown)                          \
  X(error_of, SSL_get_error)

struct OpenSslApi {
#define X(member, function) decltype(&::function) member = nullptr;
  MEMBRANE_TLS_CRYPTO_FUNCTIONS(X)
  MEMBRANE_TLS_FUNCTIONS(X)
#undef X
};

// The table, valid until the process ends. kUnavailable when libssl.so.3 is missing; every call returns the same
// result.
Result<const OpenSslApi*> openssl();

}  // namespace membrane
