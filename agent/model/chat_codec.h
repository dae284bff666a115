// The OpenAI-compatible chat API as bytes: what is sent to /chat/completions and
// /embeddings, and what comes back, whole or as a stream of deltas. Pure functions;
// model_client.cc does the talking.
//
// Servers differ. What is read here: answers of OpenAI, Cerebras, vLLM, llama.cpp,
// Ollama, LM Studio, and of gateways in front of others: deltas without an index,
// arguments as an object instead of a string, content as an array of parts, missing
// ids, missing usage, "reasoning" beside "reasoning_content".
//
// Limits: at most kMaxToolCalls calls; sizes are bounded by the caller that feeds the bytes.
// Threads: a StreamDecoder serves one stream.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/model/chat.h"

namespace membrane::agent {

inline constexpr size_t kMaxToolCalls = 32;

// What a server is known not to take; a client learns it from refusals (adapt()).
struct Dialect {
  bool stream = true;
  bool stream_usage = true;            // "stream_options": {"include_usage": true}
  bool tools = true;                   // false: calls and results are sent as text
  bool max_completion_tokens = false;  // the newer name of "max_tokens"
  bool system_role = true;             // false: the system message is merged into the first user message
};

// Changes the dialect where a refusal (the text of a 400, 404, 422 or 501) names something that can be left
// out. Returns what was changed, in words, or "" when there is nothing to be changed.
std::string adapt(Dialect& dialect, std::string_view refusal);

std::string encode_query(const ChatQuery& query, std::string_view model, const Dialect& dialect);
std::string encode_embed(std::string_view text, std::string_view model);

// A failure as the server put it.
struct ServerError {
  std::string message;  // one line, bounded
  std::string code;     // "insufficient_quota", "rate_limit_exceeded", "503"; may be empty
};
// From an error's body: {"error":{"message","code","type"}}, {"error":"…"}, {"message"}, {"detail"}, or text.
ServerError decode_error(std::string_view body);
// Whether the server refused because the conversation does not fit the model's window.
bool says_too_long(const ServerError& error);

// A whole answer.
Result<Completion> decode_completion(std::string_view body);
Result<std::vector<float>> decode_embedding(std::string_view body);

// A streamed answer: one delta() for the data of each event, then finish().
class StreamDecoder {
 public:
  explicit StreamDecoder(const ChatControl& control) : control_(control) {}

  // kInvalidInput when the data is not what the API promises; kUnavailable when it is an error that
  // the server met on the way (server_error() then has it).
  Status delta(std::string_view data);
  // [DONE] or a finish reason has come: the answer is whole.
  [[nodiscard]] bool done() const { return done_ || finished_; }
  [[nodiscard]] bool saw_done_mark() const { return done_; }
  // Anything of the answer has come.
  [[nodiscard]] bool began() const;
  [[nodiscard]] const ServerError& server_error() const { return server_error_; }
  // What has come. Not done(): finish is kCut, and calls that are not whole are left out.
  Completion finish() &&;

 private:
  struct Reader;  // the JSON's location

  const ChatControl& control_;
  Completion completion_;
  std::vector<int64_t> indexes_;  // of completion_.tool_calls; -1 if none was given
  ServerError server_error_;
  bool usage_known_ = false;
  bool finished_ = false;
  bool done_ = false;
};

// True when `text` is one JSON object.
bool is_json_object(std::string_view text);

}  // namespace membrane::agent
