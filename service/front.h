// The service's one HTTP application: passes each request to the interface that serves it, turns exceptions
// of an interface into an answer, and logs, counts and traces each answer.
//
// Threads: as for HttpApplication.
#pragma once

#include <vector>

#include "service/http.h"
#include "service/log.h"
#include "service/metrics.h"
#include "service/traces.h"

namespace membrane::service {

// One of the interfaces on the port: REST, E2B's, MCP.
class Interface : public HttpApplication {
 public:
  // Whether the request belongs to it, by path and headers.
  [[nodiscard]] virtual bool serves(const RequestHead& head) const = 0;
};

class Front final : public HttpApplication {
 public:
  // The first that serves a request gets it. All are borrowed; `metrics` and `traces` may be null.
  Front(std::vector<Interface*> interfaces, Log& log, Metrics* metrics, Traces* traces)
      : interfaces_(std::move(interfaces)), log_(log), metrics_(metrics), traces_(traces) {}

  Admission admit(const RequestHead& head) override;
  void handle(Request request, Reply reply) override;

 private:
  [[nodiscard]] Interface* find(const RequestHead& head) const;
  // Also names the span in the answer.
  void note(const RequestHead& head, Response& response, int64_t began_us) const;

  std::vector<Interface*> interfaces_;
  Log& log_;
  Metrics* metrics_;
  Traces* traces_;
};

}  // namespace membrane::service
