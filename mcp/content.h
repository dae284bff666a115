// The answers of tools: content for a model to read, and the same as data for a program.
//
// For .cc files of this floor. Threads: values and pure functions.
#pragma once

#include <string>
#include <string_view>

#include "mcp/backend.h"
#include "mcp/message.h"

namespace membrane::mcp {

// The limit for a tool's answer to a model; the report has everything.
inline constexpr size_t kObservationBytes = 16u << 10;
// The limit for each of stdout, stderr and result in a program's data.
inline constexpr size_t kStructuredTextBytes = 64u << 10;
inline constexpr size_t kMaxImages = 8;
inline constexpr size_t kMaxImageBytes = 4u << 20;  // for all of them, as base64

struct ToolAnswer {
  OrderedJson content = OrderedJson::array();
  OrderedJson structured = {};  // null: none
  bool is_error = false;
};

// A sentence and, with `structured`, its data.
ToolAnswer said(std::string text, OrderedJson structured = {});
// An error that a model can fix: cause and fix.
ToolAnswer failed(const Error& error);
// A run or a turn. It is an error when the program did not end well. The text names the report; a
// resource_link would not help: clients give its URI to the model's provider, which cannot read it.
ToolAnswer answer_of(const Ran& ran, const std::string& session);
// The JSON Schema of its data.
OrderedJson schema_of_run();

OrderedJson text_content(std::string text);
OrderedJson image_content(std::string base64, std::string_view mime_type);
// "image/png" for bytes that begin like one; "" for others.
std::string_view image_type_of(std::string_view bytes);

OrderedJson data_of(const SessionInfo& session);
OrderedJson schema_of_session();

}  // namespace membrane::mcp
