#include "computers/network/authority.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "base/ed25519.h"
#include "base/openssl.h"
#include "computers/settings.h"
#include "policy/address.h"
#include "policy/url_grant.h"

namespace membrane::computers {
namespace {

constexpr std::string_view kHttp("\x08http/1.1", 9);  // as ALPN lists protocols
constexpr long kVersion3 = 2;                         // of X.509, counted from 0

// Each object is made from a table that stays loaded.
template <typename T, auto kFree>
struct Free {
  void operator()(T* of) const { ((*openssl())->*kFree)(of); }
};
using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY, &OpenSslApi::key_free>>;
using Certificate = std::unique_ptr<X509, Free<X509, &OpenSslApi::certificate_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Free<X509_EXTENSION, &OpenSslApi::extension_free>>;

std::unexpected<Error> failed(const char* what) {
  const OpenSslApi& api = **openssl();
  const char* const why = api.reason_of(api.last_error());
  return fail(ErrorCode::kInternal,
              std::string("OpenSSL could not ") + what + ": " + (why ? why : "no reason"));
}

Result<Key> make_key() {
  Key key((*openssl())->make_key(nullptr, nullptr, "EC", "P-256"));
  if (key == nullptr) return failed("make a key");
  return key;
}

Result<uint64_t> random_number() {
  MEMBRANE_ASSIGN(const std::string bytes, system_random(sizeof(uint64_t)));
  uint64_t number = 0;
  for (const char byte : bytes) number = number << 8 | static_cast<unsigned char>(byte);
  return number >> 1 | 1;  // positive as a signed number, and not 0
}

// The differences between an authority's certificate and a server's.
struct Wanted {
  std::string name;         // CN
  EVP_PKEY* key = nullptr;  // the key that it certifies
  X509* issuer = nullptr;   // null: itself
  EVP_PKEY* signer = nullptr;
  time_t ends = 0;
  std::vector<std::pair<int, std::string>> extensions;
};

bool add_extensions(const OpenSslApi& api, X509* to, X509* issuer, const Wanted& wanted) {
  X509V3_CTX context;
  api.set_extension_context(&context, issuer, to, nullptr, nullptr, 0);
  return std::ranges::all_of(wanted.extensions, [&](const auto& each) {
    const Extension made(api.make_extension(nullptr, &context, each.first, each.second.c_str()));
    return made != nullptr && api.add_extension(to, made.get(), -1) == 1;
  });
}

Result<Certificate> make_certificate(const Wanted& wanted) {
  const OpenSslApi& api = **openssl();
  MEMBRANE_ASSIGN(const uint64_t serial, random_number());
  Certificate made(api.certificate_new());
  if (made == nullptr) return failed("make a certificate");
  X509* const issuer = wanted.issuer == nullptr ? made.get() : wanted.issuer;
  X509_NAME* const subject = api.subject_of(made.get());
  const auto text = [](std::string_view of) { return reinterpret_cast<const unsigned char*>(of.data()); };
  const bool is_made = api.set_version(made.get(), kVersion3) == 1 &&
                       api.set_integer(api.serial_number(made.get()), serial) == 1 &&
                       api.set_time(api.not_before(made.get()), 0) != nullptr &&
                       api.set_time(api.not_after(made.get()), wanted.ends) != nullptr &&
                       api.set_key(made.get(), wanted.key) == 1 &&
                       api.add_to_name(subject, "O", MBSTRING_UTF8, text("Membrane"), -1, -1, 0) == 1 &&
                       api.add_to_name(subject, "CN", MBSTRING_UTF8, text(wanted.name),
                                       static_cast<int>(wanted.name.size()), -1, 0) == 1 &&
                       api.set_issuer(made.get(), api.subject_of(issuer)) == 1 &&
                       add_extensions(api, made.get(), issuer, wanted) &&
                       api.sign_certificate(made.get(), wanted.signer, api.sha256()) != 0;
  if (!is_made) return failed("make a certificate");
  return made;
}

Result<std::string> pem_of(X509* certificate) {
  const OpenSslApi& api = **openssl();
  const std::unique_ptr<BIO, Free<BIO, &OpenSslApi::bio_free>> memory(api.bio_new(api.bio_memory()));
  if (memory == nullptr || api.write_pem(memory.get(), certificate) != 1)
    return failed("write a certificate");
  std::string text(static_cast<size_t>(api.bio_control(memory.get(), BIO_CTRL_PENDING, 0, nullptr)), '\0');
  if (api.bio_read(memory.get(), text.data(), static_cast<int>(text.size())) != static_cast<int>(text.size()))
    return failed("write a certificate");
  return text;
}

int choose_http(SSL*, const unsigned char** chosen, unsigned char* chosen_bytes, const unsigned char* offered,
                unsigned offered_bytes, void*) {
  unsigned char* found = nullptr;
  const int is_offered =
      (*openssl())
          ->choose_protocol(&found, chosen_bytes, reinterpret_cast<const unsigned char*>(kHttp.data()),
                            static_cast<unsigned>(kHttp.size()), offered, offered_bytes);
  *chosen = found;
  return is_offered == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

Result<std::shared_ptr<SSL_CTX>> make_context(X509* certificate, EVP_PKEY* key) {
  const OpenSslApi& api = **openssl();
  std::shared_ptr<SSL_CTX> made(api.context_new(api.server_method()), api.context_free);
  if (made == nullptr) return failed("begin with TLS");
  // Sessions are not resumed.
  api.context_set_options(made.get(), SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  api.context_control(made.get(), SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, nullptr);
  api.context_control(made.get(), SSL_CTRL_MODE, SSL_MODE_RELEASE_BUFFERS, nullptr);
  api.context_set_alpn(made.get(), choose_http, nullptr);
  if (api.context_control(made.get(), SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, nullptr) != 1 ||
      api.context_set_tickets(made.get(), 0) != 1 ||
      api.context_use_certificate(made.get(), certificate) != 1 || api.context_use_key(made.get(), key) != 1)
    return failed("begin with TLS");
  return made;
}

std::string with_host(const std::string& host) {
  return (policy::Address::parse(host) ? "IP:" : "DNS:") + host;
}

}  // namespace

struct Authority::State {
  std::string name;
  Key key, servers_key;  // one of its own, and one for all the servers
  time_t issued = 0;
  Certificate certificate;
  std::string pem;
  std::map<std::string, std::shared_ptr<SSL_CTX>> contexts;  // by host, under this certificate
};

struct Authority::Guarded {
  std::mutex mutex;  // of what follows
  std::optional<State> state;
};

Authority::Authority(std::function<time_t()> now)
    : now_(now ? std::move(now) : [] { return ::time(nullptr); }), guarded_(std::make_unique<Guarded>()) {}

Authority::~Authority() = default;

// Returns one whose certificate is valid for long enough. Under the mutex.
Result<Authority::State*> Authority::state() {
  const time_t now = now_();
  if (!guarded_->state) {
    if (const auto api = openssl(); !api) return std::unexpected(api.error());
    State made;
    MEMBRANE_ASSIGN(const uint64_t number, random_number());
    made.name = "Membrane sandbox " + std::to_string(number);
    MEMBRANE_ASSIGN(made.key, make_key());
    MEMBRANE_ASSIGN(made.servers_key, make_key());
    guarded_->state = std::move(made);
  }
  State& state = *guarded_->state;
  const time_t renewed_after = std::chrono::seconds(kRenewedAfter).count();
  if (state.certificate != nullptr && now >= state.issued && now - state.issued < renewed_after)
    return &state;
  MEMBRANE_ASSIGN(Certificate made,
                  make_certificate({.name = state.name,
                                    .key = state.key.get(),
                                    .signer = state.key.get(),
                                    .ends = now + std::chrono::seconds(kLife).count(),
                                    .extensions = {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
                                                   {NID_key_usage, "critical,keyCertSign,cRLSign"},
                                                   {NID_subject_key_identifier, "hash"}}}));
  MEMBRANE_ASSIGN(state.pem, pem_of(made.get()));
  state.certificate = std::move(made);
  state.issued = now;
  state.contexts.clear();
  return &state;
}

Result<std::string> Authority::certificate() {
  const std::scoped_lock lock(guarded_->mutex);
  MEMBRANE_ASSIGN(const State* const state, this->state());
  return state->pem;
}

Result<std::shared_ptr<SSL_CTX>> Authority::context_for(const std::string& host) {
  const std::scoped_lock lock(guarded_->mutex);
  MEMBRANE_ASSIGN(State* const state, this->state());
  if (const auto found = state->contexts.find(host); found != state->contexts.end()) return found->second;
  MEMBRANE_ASSIGN(const Certificate made,
                  make_certificate({.name = "Membrane",
                                    .key = state->servers_key.get(),
                                    .issuer = state->certificate.get(),
                                    .signer = state->key.get(),
                                    .ends = state->issued + std::chrono::seconds(kLife).count(),
                                    .extensions = {{NID_basic_constraints, "critical,CA:FALSE"},
                                                   {NID_key_usage, "critical,digitalSignature"},
                                                   {NID_ext_key_usage, "serverAuth"},
                                                   {NID_subject_key_identifier, "hash"},
                                                   {NID_authority_key_identifier, "keyid:always"},
                                                   {NID_subject_alt_name, with_host(host)}}}));
  MEMBRANE_ASSIGN(auto context, make_context(made.get(), state->servers_key.get()));
  if (state->contexts.size() >= kMostHosts) state->contexts.clear();
  state->contexts.emplace(host, context);
  return context;
}

bool needs_authority(const std::vector<policy::HttpGrant>& grants) {
  return std::ranges::any_of(grants, [](const policy::HttpGrant& each) {
    const auto url = policy::UrlGrant::parse(each.url);
    return url && url->url().scheme == "https" &&
           std::ranges::find(each.methods, "CONNECT") == each.methods.end();
  });
}

void add_authority_variables(std::vector<std::string>& environment,
                             const std::vector<policy::HttpGrant>& grants) {
  if (!needs_authority(grants)) return;
  add_defaults(environment, {std::string("SSL_CERT_FILE=") + kCertificatesFile,
                             std::string("NODE_EXTRA_CA_CERTS=") + kAuthorityFile});
}

}  // namespace membrane::computers
