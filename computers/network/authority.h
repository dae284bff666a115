// The certificate authority of one Linux sandbox: what its programs trust besides the usual ones, and the certificates by which the
// owner speaks TLS with them for hosts whose requests are granted singly (gateway.h).
//
// The keys are made here and stay here: they are in no file and in no sandbox. A sandbox gets the authority's certificate alone, and
// anew with each beginning, so that nothing of it is kept. Forks share the authority of what they were forked from, and so does what
// is woken in the same process: programs that have read the certificate already go on. A certificate is good for kLife, and another
// of the same key takes its place when it is a day old. All are good since 1970, because a sandbox's clock may be a virtual one.
//
// Threads: any. The keys are made with the first certificate that is asked for, and OpenSSL is loaded then.
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
  static constexpr size_t kMostHosts = 16;  // whose certificates are kept for the next connection

  // `now`: in seconds since 1970; null: the system's clock.
  explicit Authority(std::function<time_t()> now = nullptr);
  ~Authority();
  Authority(const Authority&) = delete;
  Authority& operator=(const Authority&) = delete;

  // The authority's certificate of now, in PEM. Errors: kUnavailable without OpenSSL; kInternal.
  Result<std::string> certificate();
  // What speaks TLS as the server of this name or address (lower case; IPv6 without brackets): HTTP/1.1, TLS 1.2 and later. Errors: as of
  // certificate().
  Result<std::shared_ptr<ssl_ctx_st>> context_for(const std::string& host);

 private:
  struct State;
  Result<State*> state();
  const std::function<time_t()> now_;
  struct Guarded;
  const std::unique_ptr<Guarded> guarded_;
};

// Whether requests of some https host are granted singly, so that its programs need an authority.
bool needs_authority(const std::vector<policy::HttpGrant>& grants);

// Where programs find certificates inside: the authority's alone, and the image's usual ones with it (linux/proc/).
inline constexpr char kAuthorityFile[] = "/sys/membrane/ca.pem";
inline constexpr char kCertificatesFile[] = "/sys/membrane/certificates.pem";
// What programs begin with that do not look where the system has its certificates, under grants that need an authority. Variables that
// are there stay.
void add_authority_variables(std::vector<std::string>& environment,
                             const std::vector<policy::HttpGrant>& grants);

}  // namespace membrane::computers
