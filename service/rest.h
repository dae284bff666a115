// The REST interface under /v1, as described by openapi.json. Checks the caller and the request by that
// description before a handler sees the request; a handler turns it into a call of Sandboxes or Tokens and
// the result into JSON.
//
// Threads: as for HttpApplication; answers come from any.
#pragma once

#include <memory>

#include "service/front.h"
#include "service/idempotency.h"
#include "service/ledger.h"
#include "service/operations.h"
#include "service/sandboxes.h"
#include "service/secrets.h"
#include "service/tokens.h"

namespace membrane::service {

// The service's records of its own operation; borrowed.
struct Records {
  Ledger& ledger;
  Metrics& metrics;
  Idempotency& idempotency;
  Audit* audit = nullptr;  // null: none
};

class Rest final : public Interface {
 public:
  // Everything except the operations is borrowed. Errors: kInternal when an operation has no handler, or a
  // handler no operation.
  static Result<std::unique_ptr<Rest>> make(Operations operations, Sandboxes& sandboxes, Tokens& tokens,
                                            Secrets& secrets, Records records);
  ~Rest() override;

  [[nodiscard]] bool serves(const RequestHead& head) const override;
  Admission admit(const RequestHead& head) override;
  void handle(Request request, Reply reply) override;

  // The token of a request, from Authorization: Bearer or X-API-Key. "": none.
  [[nodiscard]] static std::string_view token_of(const RequestHead& head);

 private:
  struct Impl;
  explicit Rest(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace membrane::service
