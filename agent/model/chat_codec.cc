#include "agent/model/chat_codec.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/json.h"
#include "base/text.h"

namespace membrane::agent {

using nlohmann::json;

namespace {

constexpr size_t kMaxErrorBytes = 400;
constexpr size_t kMaxEmbedding = 65'536;

// JSON of text that may not be UTF-8 (a program's output): what is not becomes U+FFFD.
std::string dump(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

// Of a server's answer. Discarded when it is no JSON, or is past the limits.
json parse(std::string_view text) {
  constexpr JsonLimits kLimits{.bytes = 64u << 20, .memory_bytes = 512u << 20};
  auto value = read_json(text, "the answer", kLimits);
  return value ? *std::move(value) : json(json::value_t::discarded);
}

const json& member(const json& object, const char* name) {
  static const json kNothing;
  if (!object.is_object()) return kNothing;
  const auto at = object.find(name);
  return at == object.end() ? kNothing : *at;
}

std::string text_of(const json& value) {
  return value.is_string() ? value.get<std::string>() : std::string();
}

uint64_t number_of(const json& value) {
  if (value.is_number_unsigned()) return value.get<uint64_t>();
  if (value.is_number_float() && value.get<double>() > 0 && value.get<double>() < 1e15)
    return static_cast<uint64_t>(value.get<double>());
  return 0;
}

// A string, or an array of parts of which those with a "text" count.
std::string content_of(const json& value) {
  if (!value.is_array()) return text_of(value);
  std::string text;
  for (const json& part : value) text += part.is_string() ? text_of(part) : text_of(member(part, "text"));
  return text;
}

std::string reasoning_of(const json& message) {
  std::string text = text_of(member(message, "reasoning_content"));
  return text.empty() ? text_of(member(message, "reasoning")) : text;
}

std::string arguments_of(const json& function) {
  const json& arguments = member(function, "arguments");
  return arguments.is_object() ? dump(arguments) : text_of(arguments);
}

Finish finish_of(std::string_view reason) {
  if (reason == "length" || reason == "max_tokens") return Finish::kLength;
  if (reason == "tool_calls" || reason == "function_call" || reason == "tool_use") return Finish::kToolCalls;
  if (reason == "content_filter") return Finish::kFiltered;
  return Finish::kStop;
}

bool read_usage(const json& answer, Usage& usage) {
  const json& counts = member(answer, "usage");
  if (!counts.is_object()) return false;
  usage.tokens_in = number_of(member(counts, "prompt_tokens"));
  usage.tokens_out = number_of(member(counts, "completion_tokens"));
  return usage.total() != 0;
}

// One line, printable, bounded: errors of servers are anybody's text.
std::string one_line(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, kMaxErrorBytes)) {
    const bool blank = static_cast<unsigned char>(c) <= ' ' || c == 0x7F;
    if (!blank) out += c;
    else if (!out.empty() && out.back() != ' ') out += ' ';
  }
  while (out.ends_with(' ')) out.pop_back();
  if (text.size() > kMaxErrorBytes) out += "…";
  return out;
}

// Whether `word` begins a word of `text`: "stream" is not in "upstream".
bool names(std::string_view text, std::string_view word) {
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1))
    if (at == 0 || !std::isalpha(static_cast<unsigned char>(text[at - 1]))) return true;
  return false;
}

// -- requests -----------------------------------------------------------------

json encode_call(const ToolCall& call) {
  return {{"id", call.id},
          {"type", "function"},
          {"function", {{"name", call.name}, {"arguments", call.arguments}}}};
}

json encode_message(const Message& message) {
  json out{{"role", name_of(message.role)}, {"content", message.content}};
  for (const ToolCall& call : message.tool_calls) out["tool_calls"].push_back(encode_call(call));
  if (!message.tool_calls.empty() && message.content.empty()) out["content"] = nullptr;
  if (message.role == Role::kTool) out["tool_call_id"] = message.tool_call_id;
  return out;
}

// For a server without tools or system messages: the same conversation in the roles it has.
std::vector<Message> in_plain_roles(const std::vector<Message>& messages, const Dialect& dialect) {
  std::vector<Message> plain;
  for (Message message : messages) {
    if (!dialect.tools) {
      for (const ToolCall& call : message.tool_calls)
        message.content += "\n[" + call.name + " " + call.arguments + "]";
      message.tool_calls.clear();
      if (message.role == Role::kTool) message.role = Role::kUser;
    }
    if (!dialect.system_role && message.role == Role::kSystem) message.role = Role::kUser;
    // Many chat templates insist that user and assistant take turns.
    if (message.role == Role::kUser && !plain.empty() && plain.back().role == Role::kUser) {
      plain.back().content += "\n\n" + message.content;
    } else {
      plain.push_back(std::move(message));
    }
  }
  return plain;
}

}  // namespace

bool is_json_object(std::string_view text) { return parse(text).is_object(); }

std::string encode_query(const ChatQuery& query, std::string_view model, const Dialect& dialect) {
  json out{{"model", model}, {"messages", json::array()}};
  for (const Message& message : in_plain_roles(query.messages, dialect))
    out["messages"].push_back(encode_message(message));
  if (dialect.tools) {
    for (const ToolSpec& tool : query.tools) {
      out["tools"].push_back({{"type", "function"},
                              {"function",
                               {{"name", tool.name},
                                {"description", tool.description},
                                {"parameters", parse(tool.parameters)}}}});
    }
  }
  if (query.max_tokens != 0)
    out[dialect.max_completion_tokens ? "max_completion_tokens" : "max_tokens"] = query.max_tokens;
  if (dialect.stream) {
    out["stream"] = true;
    if (dialect.stream_usage) out["stream_options"] = {{"include_usage", true}};
  }
  return dump(out);
}

std::string encode_embed(std::string_view text, std::string_view model) {
  return dump(json{{"model", model}, {"input", text}, {"encoding_format", "float"}});
}

std::string adapt(Dialect& dialect, std::string_view refusal) {
  struct Rule {
    std::string_view needle;
    bool Dialect::* field;
    bool value;
    std::string_view change;
  };
  // In the order in which they are tried: "stream_options" before "stream".
  static constexpr std::array kRules{
      Rule{"stream_options", &Dialect::stream_usage, false, "without stream_options"},
      Rule{"include_usage", &Dialect::stream_usage, false, "without stream_options"},
      Rule{"max_completion_tokens", &Dialect::max_completion_tokens, true, "with max_completion_tokens"},
      Rule{"system role", &Dialect::system_role, false, "without a system message"},
      Rule{"tool", &Dialect::tools, false, "without tools"},
      Rule{"function call", &Dialect::tools, false, "without tools"},
      Rule{"stream", &Dialect::stream, false, "without streaming"},
  };
  const std::string text = lower_case(refusal);
  for (const Rule& rule : kRules) {
    if (!names(text, rule.needle) || dialect.*rule.field == rule.value) continue;
    dialect.*rule.field = rule.value;
    return std::string(rule.change);
  }
  return {};
}

ServerError decode_error(std::string_view body) {
  const json answer = parse(body);
  const json* error = &member(answer, "error");
  if (answer.is_array() && !answer.empty()) error = &member(answer.front(), "error");
  ServerError out;
  if (error->is_string()) {
    out.message = one_line(text_of(*error));
  } else {
    if (!error->is_object()) error = &answer;
    out.message = one_line(text_of(member(*error, "message")));
    for (const char* name : {"code", "type", "status"}) {
      const json& code = member(*error, name);
      if (out.code.empty()) out.code = code.is_number_integer() ? dump(code) : one_line(text_of(code));
    }
  }
  if (out.message.empty()) {
    const json& detail = member(answer, "detail");
    out.message = one_line(detail.is_string() ? text_of(detail)
                           : detail.is_null() ? std::string(body)
                                              : dump(detail));
  }
  return out;
}

// Servers have no common code for it: OpenAI's first, then llama.cpp's, and the words that the others use.
bool says_too_long(const ServerError& error) {
  if (error.code == "context_length_exceeded" || error.code == "exceed_context_size_error") return true;
  static constexpr std::string_view kWords[] = {"maximum context length", "context window",
                                                "available context size", "prompt is too long"};
  return std::ranges::any_of(
      kWords, [&](std::string_view words) { return error.message.find(words) != std::string::npos; });
}

// -- whole answers ----------------------------------------------------------------

namespace {

std::unexpected<Error> malformed(std::string what, std::string_view bytes) {
  return fail(
      ErrorCode::kInvalidInput,
      "The model server's answer is malformed: " + std::move(what) + ": " + one_line(bytes.substr(0, 120)),
      "Check that MEMBRANE_BASE_URL names an OpenAI-compatible API, usually ending in /v1.");
}

std::string made_up_id(size_t index) { return "call_" + std::to_string(index + 1); }

}  // namespace

Result<Completion> decode_completion(std::string_view body) {
  const json answer = parse(body);
  if (!answer.is_object()) return malformed("it is not a JSON object", body);
  const json& choices = member(answer, "choices");
  if (!choices.is_array() || choices.empty()) return malformed("it has no choices", body);
  const json& message = member(choices.front(), "message");
  if (!message.is_object()) return malformed("its choice has no message", body);
  Completion out;
  out.content = content_of(member(message, "content"));
  out.reasoning = reasoning_of(message);
  out.finish = finish_of(text_of(member(choices.front(), "finish_reason")));
  const json& calls = member(message, "tool_calls");
  for (const json& call : calls.is_array() ? calls : json::array()) {
    if (out.tool_calls.size() == kMaxToolCalls) return malformed("it has too many tool calls", body);
    const json& function = member(call, "function");
    ToolCall decoded{text_of(member(call, "id")), text_of(member(function, "name")), arguments_of(function)};
    if (decoded.name.empty()) return malformed("a tool call has no name", body);
    if (decoded.id.empty()) decoded.id = made_up_id(out.tool_calls.size());
    out.tool_calls.push_back(std::move(decoded));
  }
  out.usage.estimated = !read_usage(answer, out.usage);
  return out;
}

Result<std::vector<float>> decode_embedding(std::string_view body) {
  const json answer = parse(body);
  const json& data = member(answer, "data");
  if (!data.is_array() || data.empty()) return malformed("it has no data", body);
  const json& numbers = member(data.front(), "embedding");
  if (!numbers.is_array() || numbers.empty() || numbers.size() > kMaxEmbedding)
    return malformed("it has no embedding", body);
  std::vector<float> out;
  out.reserve(numbers.size());
  for (const json& number : numbers) {
    if (!number.is_number() || !std::isfinite(number.get<float>()))
      return malformed("an embedding has an item that is not a number", body);
    out.push_back(number.get<float>());
  }
  return out;
}

// -- streams --------------------------------------------------------------------------

struct StreamDecoder::Reader {
  // The call that a delta belongs to. By its index; but a second id at the same index begins another
  // call, and a delta without an index begins one when it brings a name, else continues with the last.
  static ToolCall* call_of(StreamDecoder& self, const json& delta) {
    auto& calls = self.completion_.tool_calls;
    const json& index_value = member(delta, "index");
    const int64_t index = index_value.is_number_integer() ? index_value.get<int64_t>() : -1;
    const std::string id = text_of(member(delta, "id"));
    const bool named = !text_of(member(member(delta, "function"), "name")).empty();
    for (size_t i = calls.size(); i-- > 0;) {
      const bool same_index = self.indexes_[i] == index;
      const bool other_call = index == -1 ? named : !id.empty() && !calls[i].id.empty() && id != calls[i].id;
      if (same_index && !other_call) return &calls[i];
    }
    if (calls.size() == kMaxToolCalls) return nullptr;
    self.indexes_.push_back(index);
    return &calls.emplace_back();
  }

  static bool add_call(StreamDecoder& self, const json& delta) {
    ToolCall* call = call_of(self, delta);
    if (call == nullptr) return false;
    const json& function = member(delta, "function");
    if (call->id.empty()) call->id = text_of(member(delta, "id"));
    if (call->name.empty()) call->name = text_of(member(function, "name"));
    call->arguments += arguments_of(function);
    return true;
  }
};

bool StreamDecoder::began() const {
  return !completion_.content.empty() || !completion_.reasoning.empty() || !completion_.tool_calls.empty();
}

Status StreamDecoder::delta(std::string_view data) {
  if (done_) return {};  // everything after the end mark is ignored
  if (data == "[DONE]") {
    done_ = true;
    return {};
  }
  const json event = parse(data);
  if (!event.is_object()) return malformed("an event of the stream is not a JSON object", data);
  if (const json& error = member(event, "error"); !error.is_null()) {
    server_error_ = decode_error(data);
    return fail(ErrorCode::kUnavailable,
                "The model server failed in the middle of its answer: " + server_error_.message);
  }
  if (read_usage(event, completion_.usage)) usage_known_ = true;
  const json& choices = member(event, "choices");
  if (!choices.is_array() || choices.empty()) return {};  // usage, or a keep-alive
  const json& choice = choices.front();
  // "message": a server that streams, but puts all into one event.
  const json& delta =
      member(choice, "delta").is_object() ? member(choice, "delta") : member(choice, "message");
  const std::string text = content_of(member(delta, "content"));
  const std::string thought = reasoning_of(delta);
  completion_.content += text;
  completion_.reasoning += thought;
  if (!text.empty() && control_.on_text) control_.on_text(text);
  if (!thought.empty() && control_.on_thought) control_.on_thought(thought);
  const json& calls = member(delta, "tool_calls");
  for (const json& call : calls.is_array() ? calls : json::array())
    if (!Reader::add_call(*this, call)) return malformed("it has too many tool calls", data);
  if (const json& reason = member(choice, "finish_reason"); reason.is_string()) {
    finished_ = true;
    completion_.finish = finish_of(text_of(reason));
  }
  return {};
}

Completion StreamDecoder::finish() && {
  if (!done()) completion_.finish = Finish::kCut;
  completion_.usage.estimated = !usage_known_;
  auto& calls = completion_.tool_calls;
  for (size_t i = 0; i < calls.size(); ++i)
    if (calls[i].id.empty()) calls[i].id = made_up_id(i);
  std::erase_if(calls, [&](const ToolCall& call) {
    return call.name.empty() || (!done() && !is_json_object(call.arguments));
  });
  return std::move(completion_);
}

}  // namespace membrane::agent
