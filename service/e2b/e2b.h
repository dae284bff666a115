// The interface for E2B's own clients (docs/e2b.md): with E2B_API_URL and E2B_SANDBOX_URL set to the service,
// their code runs here unchanged, as far as a sandbox in WebAssembly allows. Requests to the API carry a
// token of the service as API key; requests to a sandbox name it in the header E2b-Sandbox-Id, and carry the
// access token that was returned at its creation.
//
// Threads: as for HttpApplication; answers come from any.
#pragma once

#include <memory>

#include "service/front.h"
#include "service/sandboxes.h"
#include "service/tokens.h"

namespace membrane::service::e2b {

class E2b final : public Interface {
 public:
  // Borrowed.
  E2b(Sandboxes& sandboxes, Tokens& tokens);
  ~E2b() override;

  // Paths of E2B's API, and every request that names a sandbox in a header. Ask it before Rest, whose /health
  // it shares.
  [[nodiscard]] bool serves(const RequestHead& head) const override;
  Admission admit(const RequestHead& head) override;
  void handle(Request request, Reply reply) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace membrane::service::e2b
