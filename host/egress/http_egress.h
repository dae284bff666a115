// Access to the network: decides each HTTP request by the policy's grants, and sends it.
//
// For every request, and again for every redirect on its way:
//   1. the URL is parsed once (policy/url.h) and matched against the grants; of several that
//      match, the most exact one rules. Nothing is looked up or dialled before;
//   2. the name is resolved by our own Resolver and every answer is checked: one address that
//      is not public and not granted refuses the whole request;
//   3. the request goes to the checked addresses only, with the grant's headers and secrets.
// Authorization and Cookie headers of the program do not follow a redirect to another origin,
// and a grant's headers go only to URLs that this grant allows. A secret that comes back in an
// answer is overwritten with asterisks, of the same length (secret_mask.h); where a host is sent a secret,
// answers are whole: a request for a range of bytes is refused, and so is a partial answer.
//
// An address in a grant's URL is thereby granted; a name that resolves to a non-public address needs that address in
// `addresses`. Cloud metadata addresses must be listed there in full: a range does not grant them.
//
// Ownership: budget, deadline (of the run) and resolver are borrowed. Threads: one at a time. Concurrent requests
// are sent by threads of their own, which have ended when the call returns; each has its own connections.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "host/broker/broker.h"
#include "host/egress/egress_watch.h"
#include "host/egress/resolver.h"
#include "host/limits/deadline.h"
#include "policy/budget.h"
#include "policy/policy.h"

namespace membrane::host {

// The value of a secret by its name; nothing when there is none. Called by one thread at a time, which may be one of
// the egress's own.
using Secrets = std::function<std::optional<std::string>(const std::string& name)>;
Secrets environment_secrets();

// Before anything runs: whether each secret that the grants name can be sent. Errors: kNotFound, kInvalidArgument.
Status check_granted_secrets(const std::vector<policy::HttpGrant>& grants,
                             const Secrets& secrets = environment_secrets());

class HttpEgress {
 public:
  static constexpr size_t kMaxRequestHeaders = 64;
  static constexpr size_t kMinSecretBytes = 8;  // a shorter secret could not be distinguished from other text

  // `watch` is borrowed, and may be null.
  static Result<std::unique_ptr<HttpEgress>> create(const std::vector<policy::HttpGrant>& grants,
                                                    policy::Budget& budget, const Deadline& deadline,
                                                    Resolver& resolver, Secrets secrets,
                                                    EgressWatch* watch = nullptr);
  ~HttpEgress();

  // EACCES: not granted. EINVAL: malformed. E2BIG: a limit of the grant. EQUOTA: too many redirects. EBUDGET: the
  // run's bytes or time. ETIMEDOUT, ECONNECT, EPROTO: the server. EHOST: a secret is not set, or libcurl is missing.
  // `most_bytes`: bound on bodies held at once, together; E2BIG beyond it.
  HostResult<HttpResponse> send(const HttpRequest& request, uint64_t most_bytes = UINT64_MAX);
  // `may_hold` is called before this many more bytes of a body are held, if take_piece does not take them. E2BIG if
  // it returns false.
  using MayHold = std::function<bool(uint64_t bytes)>;
  HostResult<HttpResponse> send(const HttpRequest& request, const MayHold& may_hold);

  // Each as in send(), up to kMaxHttpAtOnce concurrently; the answers are in the order of the requests.
  std::vector<HostResult<HttpResponse>> send_many(std::span<const HttpRequest> requests,
                                                  uint64_t most_bytes = UINT64_MAX);

 private:
  class Impl;
  struct Lane;
  explicit HttpEgress(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace membrane::host
