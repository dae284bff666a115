// The certificate authority of one Linux sandbox: the certificate that its programs trust in addition to the
// usual ones, and the certificates with which the owner speaks TLS to them for hosts whose requests are
// granted individually (gateway.h).
//
// The keys are made here and stay here: no file or sandbox contains them. A sandbox gets only the authority's
// certificate, again at each start, so that none is kept with it. Forks share their parent's authority, and
// so does a sandbox that is resumed in the same process: programs that have already read the certificate
// continue to work. A certificate is valid for kLife, and another of the same key replaces it when it is a
// day old. All are valid since 1970, because a sandbox's clock may be virtual.
//
// Threads: any. The first certificate makes the keys and loads OpenSSL.
#pragma once

#include <chrono>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "policy/policy.h"

struct ssl_ctx_st;  // OpenSSL's SSL_CTX

namespace membrane::computers {

class Authority {
 public:
  static constexpr std::chrono::hours kLife{30 * 24}, kRenewedAfter{24};
  static constexpr size_t kMostHosts = 16;  // whose certificates are cached

  // `now`: seconds since 1970; null: the system's clock.
  explicit Authority(std::function<time_t()> now = nullptr);
  ~Authority();
  Authority(const Authority&) = delete;
  Authority& operator=(const Authority&) = delete;

  // The authority's current certificate, in PEM. Errors: kUnavailable without OpenSSL; kInternal.
  Result<std::string> certificate();
  // A context that speaks TLS as the server of this name or address (lower case; IPv6 without brackets):
  // HTTP/1.1, TLS 1.2 and later. Errors: those of certificate().
  Result<std::shared_ptr<ssl_ctx_st>> context_for(const std::string& host);

 private:
  struct State;
  Result<State*> state();
  const std::function<time_t()> now_;
  struct Guarded;
  const std::unique_ptr<Guarded> guarded_;
};

// Whether requests of some https host are granted individually, so that its programs need an authority.
bool needs_authority(const std::vector<policy::HttpGrant>& grants);

// Where programs find certificates inside: the authority's alone, and the image's usual ones together with it
// (linux/proc/).
inline constexpr char kAuthorityFile[] = "/sys/membrane/ca.pem";
inline constexpr char kCertificatesFile[] = "/sys/membrane/certificates.pem";
// The variables, under grants that need an authority, for programs that do not look where the system has its
// certificates. Existing variables are kept.
void add_authority_variables(std::vector<std::string>& environment,
                             const std::vector<policy::HttpGrant>& grants);

}  // namespace membrane::computers
