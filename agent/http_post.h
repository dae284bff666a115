// One POST to a model server, with the answer passed on piece by piece as it arrives.
//
// Redirects are not followed (they would carry the key along), other schemes than
// http and https are refused, and a server on loopback is reached without a proxy.
//
// Threads: many threads may use an HttpPoster at once; it keeps one connection cache for each call in
// progress.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/curl.h"
#include "base/result.h"

namespace membrane::agent {

struct HttpTimeouts {
  uint64_t connect_ms = 10'000;
  uint64_t first_byte_ms = 180'000;  // of the body, from the start: a local model reads long prompts slowly
  uint64_t idle_ms = 60'000;         // between two pieces of the body
  uint64_t total_ms = 900'000;
};

struct HttpHead {
  int status = 0;
  std::string content_type;  // lower case
  std::string retry_after;   // as sent
};

struct HttpPost {
  std::string url;
  std::vector<std::string> headers;  // "Name: value"
  std::string body;
  HttpTimeouts timeouts;
  const std::atomic<bool>* cancel = nullptr;
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
};

// What to do after a piece of the body: kEnough ends the transfer soon, and successfully.
enum class More : uint8_t { kMore, kEnough };
using BodySink = std::function<Result<More>(const HttpHead& head, std::string_view piece)>;

class HttpPoster {
 public:
  explicit HttpPoster(const CurlApi* api) : api_(api) {}
  ~HttpPoster();
  HttpPoster(const HttpPoster&) = delete;
  HttpPoster& operator=(const HttpPoster&) = delete;

  // The head of the answer, whatever its status. `sink` may never be called (an empty body); its error ends
  // the transfer and is returned. Otherwise: kCancelled, kTimedOut, kUnavailable (no connection, or cut),
  // kInvalidArgument (the URL).
  Result<HttpHead> post(const HttpPost& post, const BodySink& sink);

 private:
  CURLM* borrow();
  void give_back(CURLM* multi);

  const CurlApi* api_;
  std::mutex mutex_;
  std::vector<CURLM*> idle_;  // each with its connection cache
};

// `base` with `path` ("chat/completions") after its own path; a base without a path gets "/v1", and one that
// already names an endpoint keeps only what comes before it. The query stays. kInvalidArgument: not an
// http(s) URL, or one with user-info or a fragment.
Result<std::string> endpoint_of(const CurlApi& api, const std::string& base, std::string_view path);

}  // namespace membrane::agent
