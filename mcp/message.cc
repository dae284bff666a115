#include "mcp/message.h"

#include <utility>

namespace membrane::mcp {
namespace {

std::unexpected<Unreadable> invalid(std::string message, Json id = nullptr) {
  return std::unexpected(Unreadable{{Code::kInvalidRequest, std::move(message)}, std::move(id)});
}

std::expected<Message, Unreadable> message_of(Json&& value) {
  if (!value.is_object()) return invalid("A message is a JSON object.");
  Message message;
  const auto id = value.find("id");
  const bool has_id = id != value.end();
  if (has_id && is_id(*id)) message.id = *id;
  const auto version = value.find("jsonrpc");
  if (version == value.end() || *version != "2.0")
    return invalid("A message has \"jsonrpc\":\"2.0\".", std::move(message.id));
  if (const auto method = value.find("method"); method != value.end()) {
    if (!method->is_string()) return invalid("\"method\" is a string.", std::move(message.id));
    message.method = method->get<std::string>();
  } else if (has_id && (value.contains("result") || value.contains("error"))) {
    message.kind = MessageKind::kResponse;
    return message;
  } else {
    return invalid("A message has a \"method\".", std::move(message.id));
  }
  if (has_id && message.id.is_null())
    return invalid("\"id\" is an integer, or a string of at most " + std::to_string(kMaxIdBytes) + " bytes.");
  message.kind = has_id ? MessageKind::kRequest : MessageKind::kNotification;
  message.params = Json::object();
  if (const auto params = value.find("params"); params != value.end()) {
    if (!params->is_object()) return invalid("\"params\" is an object.", std::move(message.id));
    message.params = std::move(*params);
  }
  return message;
}

std::string text_of(const OrderedJson& message) { return json_text(message); }

OrderedJson envelope() { return {{"jsonrpc", "2.0"}}; }

}  // namespace

bool is_id(const Json& value) {
  if (value.is_string()) return value.get_ref<const std::string&>().size() <= kMaxIdBytes;
  return value.is_number_integer();
}

std::expected<MessageTexts, Unreadable> read_messages(std::string_view text) {
  auto value = read_json(text, "the message", kMessageLimits);
  if (!value) {
    const bool is_too_long = value.error().code == ErrorCode::kTooLong;
    return std::unexpected(Unreadable{
        {is_too_long ? Code::kInvalidRequest : Code::kParseError, value.error().to_string()}, nullptr});
  }
  MessageTexts read;
  if (!value->is_array()) {
    read.messages.push_back(message_of(std::move(*value)));
    return read;
  }
  if (value->empty() || value->size() > kMaxMessagesInBatch)
    return invalid("A batch has 1 to " + std::to_string(kMaxMessagesInBatch) + " messages.");
  read.is_batch = true;
  for (Json& each : *value) read.messages.push_back(message_of(std::move(each)));
  return read;
}

std::string result_message(const Json& id, const OrderedJson& result) {
  OrderedJson message = envelope();
  message["id"] = id;
  message["result"] = result;
  return text_of(message);
}

std::string error_message(const Json& id, const ProtocolError& error) {
  OrderedJson message = envelope();
  if (!id.is_null()) message["id"] = id;
  OrderedJson& member = message["error"];
  member = {{"code", static_cast<int32_t>(error.code)}, {"message", error.message}};
  if (!error.data.is_null()) member["data"] = error.data;
  return text_of(message);
}

std::string notification_message(std::string_view method, const OrderedJson& params) {
  OrderedJson message = envelope();
  message["method"] = method;
  message["params"] = params;
  return text_of(message);
}

}  // namespace membrane::mcp
