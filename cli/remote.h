// A service, as the commands that speak to one see it: requests to its REST interface, by libcurl.
//
// Redirects are not followed, which would carry the token along; a service on loopback is reached without a proxy. What did
// not reach the service, and what it refuses for now (429 and 503 that can be retried), is tried again, a few times, with the same idempotency key.
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

// --url, --token; else MEMBRANE_URL, MEMBRANE_TOKEN; else the service of this machine, with the token that it left.
class RemoteOptions {
 public:
  void add_to(CLI::App& command);

  std::string url, token;
};

struct RemoteRequest {
  std::string method = "GET";
  std::vector<std::string> path = {};  // its parts: {"v1", "sandboxes", ID}
  std::vector<std::pair<std::string, std::string>> query = {};
  std::string body = {};
  std::string content_type = {};  // "": there is no body
};

class Remote {
 public:
  // Connects to nobody. Errors: kInvalidArgument (the URL), kUnsupported (no libcurl).
  static Result<Remote> open(const RemoteOptions& options);

  // The body of a good answer. Errors: what the service said, in words of the command, with its hint and the request's id; kUnavailable when none
  // answers; kCancelled when `cancel` was set.
  Result<std::string> send(const RemoteRequest& request);
  Result<nlohmann::ordered_json> send_json(const RemoteRequest& request);

  // Returns `on_event` the events of the answer as they come, until it ends.
  using OnEvent = std::function<void(const agent::SseEvent&)>;
  Status stream(const RemoteRequest& request, const OnEvent& on_event);

  // Ends what is under way, within a second. Borrowed; may be null.
  void set_cancel(const std::atomic<bool>* cancel) { cancel_ = cancel; }
  // Of the stream that was opened last; "" when it named none.
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
