// A service as the commands see it: requests to its REST interface, with libcurl.
//
// Redirects are not followed, since they would carry the token along; a service on loopback is reached
// without a proxy. A request that did not reach the service, or that it refuses for now (429 and retryable
// 503), is retried a few times with the same idempotency key.
//
// Threads: one at a time.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/sse.h"
#include "base/curl.h"
#include "base/result.h"

namespace CLI {
class App;
}

namespace membrane::cli {

// --url, --token; else MEMBRANE_URL, MEMBRANE_TOKEN; else the service of this machine, with its stored token.
class RemoteOptions {
 public:
  void add_to(CLI::App& command);

  std::string url, token;
};

struct RemoteRequest {
  std::string method = "GET";
  std::vector<std::string> path = {};  // its segments: {"v1", "sandboxes", ID}
  std::vector<std::pair<std::string, std::string>> query = {};
  std::string body = {};
  std::string content_type = {};  // "": no body
};

class Remote {
 public:
  // Does not connect. Errors: kInvalidArgument (the URL), kUnsupported (no libcurl).
  static Result<Remote> open(const RemoteOptions& options);

  // Returns the body of a successful answer. Errors: the service's message, in words of the command, with its
  // hint and the request's id; kUnavailable when nobody answers; kCancelled when `cancel` was set.
  Result<std::string> send(const RemoteRequest& request);
  Result<nlohmann::ordered_json> send_json(const RemoteRequest& request);

  // Passes the events of the answer to `on_event` as they come, until it ends.
  using OnEvent = std::function<void(const agent::SseEvent&)>;
  Status stream(const RemoteRequest& request, const OnEvent& on_event);

  // Ends a request in progress within a second. Borrowed; may be null.
  void set_cancel(const std::atomic<bool>* cancel) { cancel_ = cancel; }
  // The exec that the last opened stream belongs to; "" when it named none.
  [[nodiscard]] const std::string& exec_id() const { return exec_id_; }

 private:
  struct Transfer;
  explicit Remote(const CurlApi* api) : api_(api) {}
  Result<std::string> perform(const RemoteRequest& request, agent::SseParser* events);
  Status transfer(Transfer& transfer, const RemoteRequest& request, const std::string& key);
  Error error_of(const Transfer& transfer, const RemoteRequest& request) const;

  const CurlApi* api_;
  std::string url_, token_;
  bool is_local_ = false;
  const std::atomic<bool>* cancel_ = nullptr;
  std::string exec_id_;
};

RemoteRequest json_request(std::string method, std::vector<std::string> path,
                           const nlohmann::ordered_json& body);

}  // namespace membrane::cli
