#include "agent/model/chat.h"

namespace membrane::agent {

namespace {
constexpr uint64_t kBytesPerToken = 4;
constexpr uint64_t kTokensPerMessage = 4;  // the role and the marks around it
}  // namespace

std::string_view name_of(Role role) {
  switch (role) {
    case Role::kSystem: return "system";
    case Role::kUser: return "user";
    case Role::kAssistant: return "assistant";
    case Role::kTool: return "tool";
  }
  return "user";
}

std::string_view name_of(Finish finish) {
  switch (finish) {
    case Finish::kStop: return "stop";
    case Finish::kLength: return "length";
    case Finish::kToolCalls: return "tool_calls";
    case Finish::kFiltered: return "content_filter";
    case Finish::kCut: return "cut";
  }
  return "stop";
}

uint64_t estimate_tokens(std::string_view text) {
  return (text.size() + kBytesPerToken - 1) / kBytesPerToken;
}

uint64_t estimate_tokens(const Message& message) {
  uint64_t tokens = kTokensPerMessage + estimate_tokens(message.content);
  for (const ToolCall& call : message.tool_calls)
    tokens += estimate_tokens(call.name) + estimate_tokens(call.arguments);
  return tokens;
}

uint64_t estimate_tokens(const std::vector<Message>& messages) {
  uint64_t tokens = 0;
  for (const Message& message : messages) tokens += estimate_tokens(message);
  return tokens;
}

}  // namespace membrane::agent
