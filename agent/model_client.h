// A client for a model with an OpenAI-compatible chat API (OpenAI, Cerebras, vLLM, llama.cpp, Ollama, …), on
// libcurl.
//
// An answer is streamed when the server can, and read whole when it cannot. Features that a server refuses
// (tools, stream_options, a system message…) are not requested again. 429, 5xx, cut and malformed answers are
// retried with back-off; a server's Retry-After is honoured. The API key goes into one header and nowhere
// else: no message, log or transcript contains it.
//
// Threads: many threads may call complete() and embed() at once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "agent/chat.h"
#include "agent/chat_codec.h"
#include "agent/http_post.h"
#include "agent/retry.h"
#include "base/result.h"
#include "host/broker.h"

namespace membrane::agent {

struct ModelConfig {
  std::string model;
  std::string base_url;     // "https://api.example.org/v1"; loopback is fine
  std::string api_key;      // may be empty: local servers need none
  std::string embed_model;  // for ai.embed; `model` when empty
  bool tools = true;        // offer tools; fenced code always works
  bool stream = true;
  HttpTimeouts timeouts;
  uint32_t max_retries = 4;
  uint64_t max_wait_ms = 60'000;            // a longer Retry-After is a failure
  uint64_t max_response_bytes = 16u << 20;  // unpacked
  uint64_t jitter_seed = 0;                 // 0: from the system's randomness
};

// From MEMBRANE_MODEL, MEMBRANE_BASE_URL, MEMBRANE_API_KEY and MEMBRANE_EMBED_MODEL, looked up with
// `environment` (getenv). kNotFound names what is missing.
Result<ModelConfig> model_config_from(const std::function<const char*(const char*)>& environment);

class ModelClient final : public ChatModel {
 public:
  // Checks the configuration and loads libcurl; does not connect. `clock` is borrowed.
  static Result<std::unique_ptr<ModelClient>> create(ModelConfig config,
                                                     RetryClock& clock = RetryClock::real());

  // If the server kept cutting its answers and text had come, that is returned with Finish::kCut. Errors:
  // kCancelled; kTimedOut; kUnavailable (unreachable, 429 and 5xx up to the last try); kDenied (401, 403);
  // kNotFound (404: model or path); kExhausted (quota, or an answer beyond the limit); kInvalidInput (the
  // server refused the query, or its answer is invalid).
  Result<Completion> complete(const ChatQuery& query, const ChatControl& control) override;
  Result<std::vector<float>> embed(std::string_view text, const ChatControl& control);
  [[nodiscard]] std::string name() const override { return config_.model; }
  // Whether the server supports tools, as far as is known.
  [[nodiscard]] bool offers_tools() const;

 private:
  struct Failure;
  struct Attempt;

  ModelClient(ModelConfig config, RetryClock& clock, const CurlApi* api);
  Dialect dialect() const;
  HttpPost post_to(const std::string& url, std::string body, const ChatControl& control) const;
  Failure failure_of_status(const HttpHead& head, std::string_view body) const;
  std::expected<Completion, Failure> attempt(const ChatQuery& query, const ChatControl& control);
  std::expected<std::vector<float>, Failure> attempt_embed(std::string_view text, const ChatControl& control);
  Status wait(const Failure& failure, uint32_t retry, const ChatControl& control);
  bool adapt_to(const Failure& failure);
  std::string without_key(std::string text) const;

  ModelConfig config_;
  RetryClock& clock_;
  const CurlApi* api_;
  std::string chat_url_, embed_url_;
  HttpPoster poster_;
  mutable std::mutex mutex_;  // over what follows
  Dialect dialect_;
  Backoff backoff_;
};

// The model that programs reach through ai.*: without a conversation. The broker counts the tokens.
// Threads: as for the client.
class HostModel final : public host::Model {
 public:
  // Borrowed; `cancel` may be null.
  HostModel(ModelClient& client, const std::atomic<bool>* cancel) : client_(client), cancel_(cancel) {}
  host::HostResult<host::ChatAnswer> complete(const host::ChatRequest& request, uint64_t timeout_ms) override;
  host::HostResult<std::vector<float>> embed(std::string_view text, uint64_t timeout_ms) override;

 private:
  ModelClient& client_;
  const std::atomic<bool>* cancel_;
};

}  // namespace membrane::agent
