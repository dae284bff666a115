#include "agent/model/model_client.h"

#include <algorithm>
#include <cctype>
#include <random>
#include <utility>

#include "agent/model/sse.h"
#include "base/text.h"

namespace membrane::agent {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

constexpr size_t kMaxErrorBodyBytes = 64u << 10;
constexpr uint32_t kMaxCutRetries = 2;  // a cut answer costs its tokens each time
constexpr const char* kBaseUrlHint =
    "Check that MEMBRANE_BASE_URL names an OpenAI-compatible API, usually ending in /v1.";

bool is_printable(std::string_view text) {
  return std::ranges::all_of(text, [](unsigned char c) { return c > ' ' && c < 0x7F; });
}

uint64_t random_seed() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) | device();
}

}  // namespace

Result<ModelConfig> model_config_from(const std::function<const char*(const char*)>& environment) {
  const auto get = [&](const char* name) {
    const char* value = environment(name);
    return std::string(value == nullptr ? "" : value);
  };
  ModelConfig config;
  config.model = get("MEMBRANE_MODEL");
  config.base_url = get("MEMBRANE_BASE_URL");
  config.api_key = get("MEMBRANE_API_KEY");
  config.embed_model = get("MEMBRANE_EMBED_MODEL");
  std::string missing;
  if (config.model.empty() && config.base_url.empty()) missing = "MEMBRANE_MODEL and MEMBRANE_BASE_URL are";
  else if (config.model.empty()) missing = "MEMBRANE_MODEL is";
  else if (config.base_url.empty()) missing = "MEMBRANE_BASE_URL is";
  if (!missing.empty())
    return fail(ErrorCode::kNotFound, "No model is configured: " + missing + " not set.",
                "For a local server: MEMBRANE_MODEL=name MEMBRANE_BASE_URL=http://127.0.0.1:8080/v1; "
                "for a hosted one MEMBRANE_API_KEY, too.");
  return config;
}

// Why an attempt gave no answer, and what can be done about it.
struct ModelClient::Failure {
  Error error;
  bool retryable = false;
  bool refused = false;  // the query's form was refused: the dialect may be adapted
  std::optional<uint64_t> retry_after_ms;
  std::optional<Completion> partial;  // what had come

  explicit Failure(Error e) : error(std::move(e)) {
    retryable = error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kTimedOut;
  }
};

// One answer while it arrives: a stream of events, a JSON body, or the body of an error. The status and the
// first byte decide, since content types are not to be trusted.
struct ModelClient::Attempt {
  enum class Kind : uint8_t { kUnknown, kStream, kJson, kOther };

  const ModelConfig& config;
  StreamDecoder decoder;
  Status decoded;
  SseParser parser;
  Kind kind = Kind::kUnknown;
  std::string body;
  uint64_t bytes = 0;

  Attempt(const ModelConfig& c, const ChatControl& control)
      : config(c),
        decoder(control),
        parser(
            [this](const SseEvent& event) {
              if (decoded) decoded = decoder.delta(event.data);
            },
            SseLimits{.line_bytes = c.max_response_bytes, .data_bytes = c.max_response_bytes}) {}

  Result<More> take(const HttpHead& head, std::string_view piece) {
    const bool is_error = head.status < 200 || head.status > 299;
    if (is_error) {
      body.append(piece.substr(0, kMaxErrorBodyBytes - body.size()));
      return body.size() == kMaxErrorBodyBytes ? More::kEnough : More::kMore;
    }
    bytes += piece.size();
    if (bytes > config.max_response_bytes)
      return fail(ErrorCode::kExhausted, "The model server's answer is longer than " +
                                             count_of(config.max_response_bytes, "byte") + ".");
    if (kind == Kind::kUnknown) kind = kind_of(piece);
    if (kind != Kind::kStream) {
      body.append(piece);
      return More::kMore;
    }
    MEMBRANE_TRY(parser.feed(piece));
    MEMBRANE_TRY(decoded);
    return decoder.saw_done_mark() ? More::kEnough : More::kMore;
  }

  static Kind kind_of(std::string_view piece) {
    const size_t at = piece.find_first_not_of(" \t\r\n");
    if (at == std::string_view::npos) return Kind::kUnknown;
    if (piece[at] == '{' || piece[at] == '[') return Kind::kJson;
    return piece[at] == '<' ? Kind::kOther : Kind::kStream;
  }

  // The connection has ended well: an event whose blank line is missing may still be the last one.
  void end_of_stream() {
    const auto last = parser.unfinished();
    if (last && decoded && (last->data == "[DONE]" || is_json_object(last->data)))
      decoded = decoder.delta(last->data);
  }
};

ModelClient::ModelClient(ModelConfig config, RetryClock& clock, const CurlApi* api)
    : config_(std::move(config)),
      clock_(clock),
      api_(api),
      poster_(api),
      backoff_(config_.jitter_seed != 0 ? config_.jitter_seed : random_seed()) {
  dialect_.tools = config_.tools;
  dialect_.stream = config_.stream;
}

Result<std::unique_ptr<ModelClient>> ModelClient::create(ModelConfig config, RetryClock& clock) {
  MEMBRANE_ASSIGN(const CurlApi* api, curl());
  if (config.model.empty())
    return fail(ErrorCode::kInvalidArgument, "The model's name is empty.", "Set MEMBRANE_MODEL.");
  if (!is_printable(config.api_key))  // also keeps line ends out of the header
    return fail(ErrorCode::kInvalidArgument,
                "The API key holds a space, a line end or another character that no key has.",
                "Check MEMBRANE_API_KEY for a stray newline.");
  MEMBRANE_ASSIGN(std::string chat_url, endpoint_of(*api, config.base_url, "chat/completions"));
  MEMBRANE_ASSIGN(std::string embed_url, endpoint_of(*api, config.base_url, "embeddings"));
  std::unique_ptr<ModelClient> client(new ModelClient(std::move(config), clock, api));
  client->chat_url_ = std::move(chat_url);
  client->embed_url_ = std::move(embed_url);
  return client;
}

Dialect ModelClient::dialect() const {
  const std::scoped_lock lock(mutex_);
  return dialect_;
}

bool ModelClient::offers_tools() const { return dialect().tools; }

// Some servers quote the key in their refusal of it.
std::string ModelClient::without_key(std::string text) const {
  const std::string& key = config_.api_key;
  if (key.empty()) return text;
  for (size_t at = text.find(key); at != std::string::npos; at = text.find(key, at))
    text.replace(at, key.size(), "[key]");
  return text;
}

HttpPost ModelClient::post_to(const std::string& url, std::string body, const ChatControl& control) const {
  HttpPost post{url,
                {"Content-Type: application/json", "Accept: text/event-stream, application/json", "Expect:"},
                std::move(body),
                config_.timeouts,
                control.cancel,
                control.deadline};
  if (!config_.api_key.empty()) post.headers.push_back("Authorization: Bearer " + config_.api_key);
  return post;
}

ModelClient::Failure ModelClient::failure_of_status(const HttpHead& head, std::string_view body) const {
  struct Meaning {
    int status;
    ErrorCode code;
    const char* hint;
  };
  static constexpr Meaning kMeanings[] = {
      {400, ErrorCode::kInvalidInput,
       "The server does not take the query as it is; the model's name may be wrong."},
      {401, ErrorCode::kDenied, "Check MEMBRANE_API_KEY."},
      {403, ErrorCode::kDenied, "The key is known, but may not use this model."},
      {404, ErrorCode::kNotFound,
       "Check MEMBRANE_MODEL and the path of MEMBRANE_BASE_URL, which usually ends in /v1."},
      {413, ErrorCode::kTooLong, "The conversation is longer than the server takes."},
      {422, ErrorCode::kInvalidInput, "The server does not take the query as it is."},
  };
  const ServerError server = decode_error(body);
  Error error{ErrorCode::kUnavailable, "The model server answered " + std::to_string(head.status), ""};
  if (!server.message.empty()) error.message += ": " + without_key(server.message);
  for (const Meaning& meaning : kMeanings) {
    if (meaning.status != head.status) continue;
    error.code = meaning.code;
    error.hint = meaning.hint;
  }
  if (head.status >= 300 && head.status < 400)
    error.hint = "Redirects are not followed: name the final address in MEMBRANE_BASE_URL.";
  Failure failure(std::move(error));
  failure.retryable = is_transient(head.status);
  failure.refused = head.status == 400 || head.status == 404 || head.status == 422 || head.status == 500 ||
                    head.status == 501;
  failure.retry_after_ms = retry_after_ms(*api_, head.retry_after, clock_.unix_s());
  if (says_too_long(server)) {  // whatever the status
    failure.error.code = ErrorCode::kTooLong;
    failure.error.hint = "The conversation is longer than the model's window.";
    failure.retryable = failure.refused = false;
  }
  if (server.code == "insufficient_quota") {  // a 429 that waiting does not fix
    failure.error.code = ErrorCode::kExhausted;
    failure.error.hint = "The account has no quota left.";
    failure.retryable = false;
  }
  return failure;
}

std::expected<Completion, ModelClient::Failure> ModelClient::attempt(const ChatQuery& query,
                                                                     const ChatControl& control) {
  Attempt answer(config_, control);
  const auto head =
      poster_.post(post_to(chat_url_, encode_query(query, config_.model, dialect()), control),
                   [&](const HttpHead& h, std::string_view piece) { return answer.take(h, piece); });
  const auto counted = [&](Completion completion) {
    if (completion.usage.estimated) {
      completion.usage.tokens_in = estimate_tokens(query.messages);
      completion.usage.tokens_out =
          estimate_tokens(completion.content) + estimate_tokens(completion.reasoning);
      for (const ToolCall& call : completion.tool_calls)
        completion.usage.tokens_out += estimate_tokens(call.arguments);
    }
    return completion;
  };
  const auto broken = [&](Error error, bool retryable) {
    error.message = without_key(std::move(error.message));
    Failure failure(std::move(error));
    failure.retryable = retryable;
    if (answer.decoder.began()) failure.partial = counted(std::move(answer.decoder).finish());
    return std::unexpected(std::move(failure));
  };
  if (head && (head->status < 200 || head->status > 299))
    return std::unexpected(failure_of_status(*head, answer.body));
  if (!head && answer.decoder.done())
    return counted(std::move(answer.decoder).finish());  // cut after the end
  if (!head) {
    const ErrorCode code = head.error().code;
    // A malformed answer may succeed later; a limit or a cancellation will not.
    return broken(head.error(), code == ErrorCode::kUnavailable || code == ErrorCode::kTimedOut ||
                                    code == ErrorCode::kInvalidInput);
  }
  if (answer.kind == Attempt::Kind::kJson) {
    if (auto completion = decode_completion(answer.body)) return counted(std::move(*completion));
    else if (const ServerError server = decode_error(answer.body);
             is_json_object(answer.body) && !server.code.empty())
      return broken(
          {ErrorCode::kUnavailable, "The model server answered with an error: " + server.message, ""}, true);
    else return broken(completion.error(), true);
  }
  if (answer.kind == Attempt::Kind::kOther)
    return broken(
        {ErrorCode::kInvalidInput,
         "The model server answered with a web page, not with JSON or an event stream (content type " +
             (head->content_type.empty() ? "not given" : head->content_type) + ").",
         kBaseUrlHint},
        false);
  answer.end_of_stream();
  if (!answer.decoded) return broken(answer.decoded.error(), true);
  if (answer.decoder.done()) return counted(std::move(answer.decoder).finish());
  return broken(answer.decoder.began()
                    ? Error{ErrorCode::kUnavailable,
                            "The model server's answer was cut: its stream ended without an end mark.", ""}
                    : Error{ErrorCode::kInvalidInput,
                            "The model server's answer holds nothing (content type " +
                                (head->content_type.empty() ? "not given" : head->content_type) + ").",
                            kBaseUrlHint},
                true);
}

bool ModelClient::adapt_to(const Failure& failure) {
  if (!failure.refused) return false;
  const std::scoped_lock lock(mutex_);
  return !adapt(dialect_, failure.error.message).empty();
}

Status ModelClient::wait(const Failure& failure, uint32_t retry, const ChatControl& control) {
  uint64_t ms = 0;
  {
    const std::scoped_lock lock(mutex_);
    ms = backoff_.wait_ms(retry);
  }
  ms = std::max(ms, failure.retry_after_ms.value_or(0));
  const std::string asked = "it asks to be left alone for " + std::to_string(ms / 1000) + " s";
  if (failure.retry_after_ms && ms > config_.max_wait_ms)
    return fail(failure.error.code, failure.error.message + " And " + asked + ".", "Try again later.");
  if (control.deadline != steady_clock::time_point::max() &&
      steady_clock::now() + milliseconds(ms) >= control.deadline)
    return fail(ErrorCode::kTimedOut,
                failure.error.message + " There is no wall-clock budget left to try again.", "Raise --wall.");
  if (control.on_retry) control.on_retry(failure.error.message, ms);
  if (!clock_.wait_ms(ms, control.cancel))
    return fail(ErrorCode::kCancelled, "The request to the model was cancelled.");
  return {};
}

Result<Completion> ModelClient::complete(const ChatQuery& query, const ChatControl& control) {
  Usage spent;  // by failed attempts
  uint32_t cuts = 0;
  for (uint32_t retry = 0, attempts = 1;; ++attempts) {
    auto answer = attempt(query, control);
    if (answer) {
      answer->attempts = attempts;
      answer->usage.tokens_in += spent.tokens_in;
      answer->usage.tokens_out += spent.tokens_out;
      answer->usage.estimated |= spent.total() != 0;
      return std::move(*answer);
    }
    Failure& failure = answer.error();
    if (adapt_to(failure)) continue;  // each adaptation happens once, so this ends
    if (failure.partial) {
      ++cuts;
      spent.tokens_in += failure.partial->usage.tokens_in;
      spent.tokens_out += failure.partial->usage.tokens_out;
    }
    Status again;
    const bool last = !failure.retryable || retry >= config_.max_retries || cuts > kMaxCutRetries;
    if (!last) again = wait(failure, retry++, control);
    if (!last && again) continue;
    if (!again) return std::unexpected(again.error());  // no time, cancelled, or no use to wait
    if (failure.partial && failure.retryable && !failure.partial->content.empty()) {
      failure.partial->attempts = attempts;
      failure.partial->finish = Finish::kCut;
      failure.partial->usage = {spent.tokens_in, spent.tokens_out, true};
      failure.partial->problem = failure.error.message;
      return std::move(*failure.partial);
    }
    return std::unexpected(failure.error);
  }
}

std::expected<std::vector<float>, ModelClient::Failure> ModelClient::attempt_embed(
    std::string_view text, const ChatControl& control) {
  Attempt answer(config_, control);
  answer.kind = Attempt::Kind::kJson;
  const std::string& model = config_.embed_model.empty() ? config_.model : config_.embed_model;
  const auto head =
      poster_.post(post_to(embed_url_, encode_embed(text, model), control),
                   [&](const HttpHead& h, std::string_view piece) { return answer.take(h, piece); });
  if (!head) return std::unexpected(Failure(head.error()));
  if (head->status < 200 || head->status > 299) return std::unexpected(failure_of_status(*head, answer.body));
  auto vector = decode_embedding(answer.body);
  if (!vector) return std::unexpected(Failure(vector.error()));
  return std::move(*vector);
}

Result<std::vector<float>> ModelClient::embed(std::string_view text, const ChatControl& control) {
  for (uint32_t retry = 0;; ++retry) {
    auto vector = attempt_embed(text, control);
    if (vector) return std::move(*vector);
    if (!vector.error().retryable || retry >= config_.max_retries)
      return std::unexpected(vector.error().error);
    MEMBRANE_TRY(wait(vector.error(), retry, control));
  }
}

// -- ai.* -------------------------------------------------------------------------------

namespace {

std::unexpected<host::HostError> to_host(const Error& error) {
  using host::Errno;
  Errno code = Errno::kHost;
  switch (error.code) {
    case ErrorCode::kTimedOut: code = Errno::kTimedOut; break;
    case ErrorCode::kCancelled: code = Errno::kCancelled; break;
    case ErrorCode::kExhausted: code = Errno::kQuota; break;
    case ErrorCode::kTooLong: code = Errno::kTooBig; break;
    case ErrorCode::kInvalidInput: code = Errno::kProtocol; break;
    case ErrorCode::kNotFound:
    case ErrorCode::kUnsupported: code = Errno::kUnsupported; break;
    case ErrorCode::kUnavailable: code = Errno::kConnection; break;
    default: break;
  }
  return host::refuse(code, error.message);
}

ChatControl control_for(uint64_t timeout_ms, const std::atomic<bool>* cancel) {
  ChatControl control;
  control.cancel = cancel;
  if (timeout_ms != 0) control.deadline = steady_clock::now() + milliseconds(timeout_ms);
  return control;
}

}  // namespace

host::HostResult<host::ChatAnswer> HostModel::complete(const host::ChatRequest& request,
                                                       uint64_t timeout_ms) {
  ChatQuery query;
  query.max_tokens = request.max_tokens;
  if (!request.system.empty()) query.messages.push_back({Role::kSystem, request.system, {}, {}});
  query.messages.push_back({Role::kUser, request.prompt, {}, {}});
  const auto answer = client_.complete(query, control_for(timeout_ms, cancel_));
  if (!answer) return to_host(answer.error());
  if (answer->finish == Finish::kCut) return host::refuse(host::Errno::kConnection, answer->problem);
  return host::ChatAnswer{answer->content, answer->usage.tokens_in, answer->usage.tokens_out};
}

host::HostResult<std::vector<float>> HostModel::embed(std::string_view text, uint64_t timeout_ms) {
  auto vector = client_.embed(text, control_for(timeout_ms, cancel_));
  if (!vector) return to_host(vector.error());
  return std::move(*vector);
}

}  // namespace membrane::agent
