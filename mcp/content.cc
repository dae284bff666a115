#include "mcp/content.h"

#include <algorithm>
#include <utility>

#include "base/base64.h"
#include "base/utf8.h"

namespace membrane::mcp {
namespace {

OrderedJson described(std::string_view type, std::string_view description) {
  return {{"type", type}, {"description", description}};
}

// The text, or as much of it as there is room for; then `is_cut` becomes true.
std::string bounded(std::string_view text, bool& is_cut) {
  if (!is_utf8(text)) return bounded(utf8_repair(text), is_cut);
  if (text.size() <= kStructuredTextBytes) return std::string(text);
  is_cut = true;
  return std::string(text.substr(0, utf8_cut(text, kStructuredTextBytes)));
}

OrderedJson data_of(const sandbox::ReportError& error) {
  OrderedJson data = {{"code", error.code}, {"message", error.message}};
  if (!error.hint.empty()) data["hint"] = error.hint;
  if (!error.place.file.empty()) data["file"] = error.place.file;
  if (error.place.line != 0) data["line"] = error.place.line;
  if (!error.traceback.empty()) data["traceback"] = error.traceback;
  return data;
}

OrderedJson refused_calls(const sandbox::Report& report) {
  constexpr size_t kMost = 20;
  OrderedJson refused = OrderedJson::array();
  for (const sandbox::HostCallRecord& call : report.host_calls) {
    if (call.allowed || refused.size() == kMost) continue;
    OrderedJson one = {{"call", call.name}, {"reason", call.reason}};
    if (!call.grant.empty()) one["grant"] = call.grant;
    refused.push_back(std::move(one));
  }
  return refused;
}

OrderedJson data_of(const Ran& ran, const std::string& session) {
  const sandbox::Report& report = ran.report;
  bool is_cut = report.output_bytes_cut != 0;
  OrderedJson data = {{"outcome", name_of(report.outcome)},
                      {"result", bounded(report.result, is_cut)},
                      {"stdout", bounded(report.stdout_text, is_cut)},
                      {"stderr", bounded(report.stderr_text, is_cut)}};
  if (is_cut) data["is_cut"] = true;
  if (!report.results.empty()) {
    OrderedJson& results = data["results"] = OrderedJson::array();
    for (const sandbox::ReportValue& value : report.results) results.push_back(value.value);
  }
  if (!report.errors.empty()) data["error"] = data_of(report.errors.front());
  if (report.exit_code) data["exit_code"] = *report.exit_code;
  if (OrderedJson refused = refused_calls(report); !refused.empty()) data["refused"] = std::move(refused);
  if (!report.files.empty()) {
    OrderedJson& files = data["files"] = OrderedJson::array();
    for (const sandbox::ReportFile& file : report.files)
      files.push_back({{"path", file.path}, {"size_bytes", file.size_bytes}});
  }
  data["fuel_used"] = report.fuel_used;
  data["memory_peak_bytes"] = report.memory_peak_bytes;
  data["report"] = ran.report_id;
  if (!session.empty()) data["session"] = session;
  return data;
}

void add_images(const sandbox::RichValue& value, OrderedJson& content, size_t& images, size_t& bytes) {
  for (const sandbox::MimePart& part : value) {
    if (!part.is_base64 || !part.type.starts_with("image/")) continue;
    if (images == kMaxImages || part.data.size() > kMaxImageBytes - bytes) continue;
    ++images;
    bytes += part.data.size();
    content.push_back(image_content(part.data, part.type));
  }
}

}  // namespace

OrderedJson text_content(std::string text) { return {{"type", "text"}, {"text", std::move(text)}}; }

OrderedJson image_content(std::string base64, std::string_view mime_type) {
  return {{"type", "image"}, {"data", std::move(base64)}, {"mimeType", mime_type}};
}

std::string_view image_type_of(std::string_view bytes) {
  if (bytes.starts_with("\x89PNG\r\n\x1a\n")) return "image/png";
  if (bytes.starts_with("\xff\xd8\xff")) return "image/jpeg";
  if (bytes.starts_with("GIF87a") || bytes.starts_with("GIF89a")) return "image/gif";
  if (bytes.starts_with("RIFF") && bytes.size() >= 12 && bytes.substr(8, 4) == "WEBP") return "image/webp";
  return "";
}

ToolAnswer said(std::string text, OrderedJson structured) {
  ToolAnswer answer;
  answer.content.push_back(text_content(std::move(text)));
  answer.structured = std::move(structured);
  return answer;
}

ToolAnswer failed(const Error& error) {
  ToolAnswer answer = said(error.hint.empty() ? error.message : error.message + "\n" + error.hint);
  answer.is_error = true;
  return answer;
}

ToolAnswer answer_of(const Ran& ran, const std::string& session) {
  ToolAnswer answer;
  std::string text = sandbox::render_observation(ran.report, kObservationBytes);
  answer.content.push_back(text_content(std::move(text) + "\nreport: " + ran.report_id));
  size_t images = 0, bytes = 0;
  add_images(ran.report.value, answer.content, images, bytes);
  for (const sandbox::RichValue& value : ran.report.displays)
    add_images(value, answer.content, images, bytes);
  answer.structured = data_of(ran, session);
  answer.is_error = ran.report.outcome != sandbox::Outcome::kOk || ran.report.exit_code.value_or(0) != 0;
  return answer;
}

OrderedJson schema_of_run() {
  OrderedJson outcomes = OrderedJson::array();
#define X(id, name, exit, sentence) outcomes.push_back(name);
  MEMBRANE_OUTCOMES(X)
#undef X
  const auto list = [](OrderedJson item) -> OrderedJson {
    return {{"type", "array"}, {"items", std::move(item)}};
  };
  const auto object = [](OrderedJson properties, std::vector<std::string> required) -> OrderedJson {
    return {{"type", "object"}, {"properties", std::move(properties)}, {"required", std::move(required)}};
  };
  const OrderedJson text = {{"type", "string"}}, count = {{"type", "integer"}, {"minimum", 0}};
  OrderedJson properties;
  properties["outcome"] = {{"enum", outcomes}, {"description", "How the program ended"}};
  properties["result"] = described("string", "The value of the last expression; empty when there is none");
  properties["stdout"] = described("string", "What it printed");
  properties["stderr"] = described("string", "What it printed to standard error");
  properties["is_cut"] = described("boolean", "Some output is left out here");
  properties["results"] = list(text);
  properties["results"]["description"] = "In WAT: the values that the function returned";
  properties["error"] = object({{"code", text},
                                {"message", text},
                                {"hint", text},
                                {"file", text},
                                {"line", count},
                                {"traceback", text}},
                               {"code", "message"});
  properties["exit_code"] = described("integer", "If the program exited");
  properties["refused"] =
      list(object({{"call", text}, {"reason", text}, {"grant", text}}, {"call", "reason"}));
  properties["refused"]["description"] = "Calls that the policy refused; grant is what would allow each";
  properties["files"] = list(object({{"path", text}, {"size_bytes", count}}, {"path", "size_bytes"}));
  properties["files"]["description"] = "Files that it made or changed";
  properties["fuel_used"] = count;
  properties["memory_peak_bytes"] = count;
  properties["report"] = described("string", "For get_report");
  properties["session"] = text;
  return object(std::move(properties), {"outcome", "result", "stdout", "stderr", "fuel_used", "report"});
}

OrderedJson data_of(const SessionInfo& session) {
  OrderedJson data = {{"session", session.id}, {"language", session.language}, {"turns", session.turns}};
  if (!session.parent.empty()) data["parent"] = session.parent;
  if (session.is_busy) data["is_busy"] = true;
  return data;
}

OrderedJson schema_of_session() {
  const OrderedJson text = {{"type", "string"}};
  return {{"type", "object"},
          {"properties",
           {{"session", described("string", "The handle that other tools take")},
            {"language", text},
            {"turns", {{"type", "integer"}, {"minimum", 0}}},
            {"parent", described("string", "The session that it was forked from")},
            {"is_busy", described("boolean", "A program runs in it")}}},
          {"required", {"session", "language", "turns"}}};
}

}  // namespace membrane::mcp
