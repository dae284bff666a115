// A conversation with a model, as values, and the interface of what answers it:
// a server over HTTP (model_client.h) or a recording (transcript.h).
//
// Threads: values; a ChatModel says for itself.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace membrane::agent {

enum class Role : uint8_t { kSystem, kUser, kAssistant, kTool };
std::string_view name_of(Role role);  // "system", "user", …

struct ToolCall {
  std::string id;  // never empty; made up when the server gave none
  std::string name;
  std::string arguments;  // JSON text as the model wrote it; may be malformed

  friend bool operator==(const ToolCall&, const ToolCall&) = default;
};

struct Message {
  Role role = Role::kUser;
  std::string content;
  std::vector<ToolCall> tool_calls;  // kAssistant
  std::string tool_call_id;          // kTool: which call this answers
};

struct ToolSpec {
  std::string name;
  std::string description;
  std::string parameters;  // JSON Schema of the arguments, as text
};

struct Usage {
  uint64_t tokens_in = 0;
  uint64_t tokens_out = 0;
  bool estimated = false;  // the server did not say; four bytes were taken for a token

  [[nodiscard]] uint64_t total() const { return tokens_in + tokens_out; }
};

// Why the model stopped. kCut: the connection ended first, and what had come is kept.
enum class Finish : uint8_t { kStop, kLength, kToolCalls, kFiltered, kCut };
std::string_view name_of(Finish finish);  // "stop", "length", …

struct Completion {
  std::string content;
  std::string reasoning;  // what a reasoning model thought aloud; for people, never sent back
  std::vector<ToolCall> tool_calls;
  Finish finish = Finish::kStop;
  Usage usage;  // of every attempt
  uint32_t attempts = 1;
  std::string problem;  // kCut: what went wrong, in words
};

struct ChatQuery {
  std::vector<Message> messages;
  std::vector<ToolSpec> tools;
  uint32_t max_tokens = 0;  // of the answer; 0: the server's own limit
};

struct ChatControl {
  std::function<void(std::string_view)> on_text;     // as the answer arrives; may be null
  std::function<void(std::string_view)> on_thought;  // as the reasoning arrives; may be null
  // Before the query is sent again: why, and the wait in ms. Text given to on_text since the query
  // began is void. May be null.
  std::function<void(std::string_view why, uint64_t wait_ms)> on_retry;
  const std::atomic<bool>* cancel = nullptr;  // set it to stop; kCancelled is answered
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
};

class ChatModel {
 public:
  virtual ~ChatModel() = default;
  virtual Result<Completion> complete(const ChatQuery& query, const ChatControl& control) = 0;
  [[nodiscard]] virtual std::string name() const = 0;
};

// A rough count, for budgets and trimming where no server has counted: four bytes a token.
uint64_t estimate_tokens(std::string_view text);
uint64_t estimate_tokens(const Message& message);
uint64_t estimate_tokens(const std::vector<Message>& messages);

}  // namespace membrane::agent
