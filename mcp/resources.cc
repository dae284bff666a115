#include "mcp/resources.h"

#include <charconv>
#include <utility>
#include <vector>

#include "base/base64.h"
#include "base/text.h"
#include "base/utf8.h"
#include "mcp/content.h"
#include "mcp/uri.h"

namespace membrane::mcp {
namespace {

constexpr size_t kPage = 50;
constexpr size_t kMaxSessions = 100;  // sessions whose files are listed
constexpr size_t kMaxFiles = 1'000;   // listed files of a session
constexpr size_t kMaxResourceBytes = 8u << 20;
constexpr std::string_view kJson = "application/json", kText = "text/plain";

OrderedJson resource(const ResourceName& name, std::string title, std::string description,
                     std::string_view mime_type, Revision revision) {
  OrderedJson data = {{"uri", uri_of(name)}, {"name", title}};
  if (revision >= Revision::k2025_06_18) data["title"] = std::move(title);
  data["description"] = std::move(description);
  if (!mime_type.empty()) data["mimeType"] = mime_type;
  return data;
}

OrderedJson all_resources(Backend& backend, const Caller& caller, Revision revision) {
  OrderedJson all = OrderedJson::array();
  all.push_back(
      resource({.place = Place::kPolicy}, "policy", "What programs may do, in sentences", kText, revision));
  all.push_back(
      resource({.place = Place::kSessions}, "sessions", "The sessions that there are", kJson, revision));
  // What the caller may not see is not listed; reading it names the missing scope.
  const auto reports = backend.reports(caller).value_or(std::vector<ReportInfo>());
  for (const ReportInfo& report : reports)
    all.push_back(resource({.place = Place::kReport, .id = report.id}, report.id,
                           "The report of a program in " + report.language + ": " + report.outcome, kJson,
                           revision));
  size_t looked_into = 0;
  const auto sessions = backend.sessions(caller).value_or(std::vector<SessionInfo>());
  for (const SessionInfo& session : sessions) {
    if (looked_into++ == kMaxSessions) break;
    const auto files =
        session.is_busy ? Result<std::vector<sandbox::ReportFile>>() : backend.list_files(caller, session.id);
    if (!files) continue;  // another call uses or has closed it
    size_t listed = 0;
    for (const sandbox::ReportFile& file : *files) {
      if (listed++ == kMaxFiles) break;
      OrderedJson one = resource({.place = Place::kFile, .id = session.id, .path = file.path}, file.path,
                                 "A file of the session " + session.id, "", revision);
      one["size"] = file.size_bytes;
      all.push_back(std::move(one));
    }
  }
  return all;
}

ProtocolError not_found(const std::string& uri, const std::string& why, Revision revision) {
  return {is_stateless(revision) ? Code::kInvalidParams : Code::kResourceNotFound,
          "Resource not found: " + why,
          {{"uri", uri.substr(0, utf8_cut(uri, kMaxUriBytes))}}};
}

// The bytes and their type.
struct Read {
  std::string bytes;
  std::string_view mime_type;
  uint64_t ttl_ms = 0;
};

Result<std::string> sessions_json(Backend& backend, const Caller& caller) {
  MEMBRANE_ASSIGN(const std::vector<SessionInfo> all, backend.sessions(caller));
  OrderedJson sessions = OrderedJson::array();
  for (const SessionInfo& each : all) sessions.push_back(data_of(each));
  return json_text(OrderedJson{{"sessions", std::move(sessions)}});
}

Result<Read> read(Backend& backend, const Caller& caller, const ResourceName& name) {
  switch (name.place) {
    case Place::kPolicy: {
      MEMBRANE_ASSIGN(PolicyText policy, backend.policy(caller, ""));
      return Read{std::move(policy.explanation), kText};
    }
    case Place::kSessions: {
      MEMBRANE_ASSIGN(std::string json, sessions_json(backend, caller));
      return Read{std::move(json), kJson};
    }
    case Place::kReport: {
      MEMBRANE_ASSIGN(std::string json, backend.report(caller, name.id));
      return Read{std::move(json), kJson, kKeepsMs};
    }
    case Place::kFile: {
      MEMBRANE_ASSIGN(std::string bytes, backend.read_file(caller, name.id, name.path));
      const std::string_view image = image_type_of(bytes);
      const std::string_view type = !image.empty()   ? image
                                    : is_utf8(bytes) ? kText
                                                     : "application/octet-stream";
      return Read{std::move(bytes), type};
    }
  }
  return fail(ErrorCode::kNotFound, "there is no such resource");
}

}  // namespace

std::expected<Listing, ProtocolError> list_resources(Backend& backend, const Caller& caller,
                                                     const std::string& cursor, Revision revision) {
  size_t from = 0;
  if (!cursor.empty()) {
    const char* const end = cursor.data() + cursor.size();
    const auto [at, error] = std::from_chars(cursor.data(), end, from);
    if (error != std::errc() || at != end)
      return std::unexpected(ProtocolError{Code::kInvalidParams, "The cursor is unknown."});
  }
  const OrderedJson all = all_resources(backend, caller, revision);
  OrderedJson page = OrderedJson::array();
  for (size_t i = from; i < all.size() && i - from < kPage; ++i) page.push_back(all[i]);
  Listing listing{{{"resources", std::move(page)}}};
  if (from < all.size() && all.size() - from > kPage)
    listing.result["nextCursor"] = std::to_string(from + kPage);
  return listing;
}

Listing list_resource_templates(Revision revision) {
  const auto one = [&](const char* uri, const char* name, const char* title, const char* description,
                       std::string_view type) {
    OrderedJson data = {{"uriTemplate", uri}, {"name", name}};
    if (revision >= Revision::k2025_06_18) data["title"] = title;
    data["description"] = description;
    if (!type.empty()) data["mimeType"] = type;
    return data;
  };
  OrderedJson templates = OrderedJson::array();
  templates.push_back(one("membrane://reports/{report}", "report", "Report",
                          "What one run did, as JSON (docs/report.schema.json)", kJson));
  templates.push_back(
      one("membrane://sessions/{session}/files/{+path}", "file", "File of a session", "Text, or bytes", ""));
  return {{{"resourceTemplates", std::move(templates)}}, kKeepsMs};
}

std::expected<Listing, ProtocolError> read_resource(Backend& backend, const Caller& caller,
                                                    const std::string& uri, Revision revision) {
  const auto name = read_uri(uri);
  if (!name)
    return std::unexpected(
        not_found(uri, "resources/list and resources/templates/list list what exists.", revision));
  auto found = read(backend, caller, *name);
  if (!found) return std::unexpected(not_found(uri, found.error().to_string(), revision));
  if (found->bytes.size() > kMaxResourceBytes)
    return std::unexpected(ProtocolError{
        Code::kInvalidParams,
        "The resource has " + count_of(found->bytes.size(), "byte") + "; read_file gives parts of a file."});
  OrderedJson content = {{"uri", uri}, {"mimeType", found->mime_type}};
  if (is_utf8(found->bytes) && !found->mime_type.starts_with("image/"))
    content["text"] = std::move(found->bytes);
  else content["blob"] = base64_encode(found->bytes);
  OrderedJson contents = OrderedJson::array();
  contents.push_back(std::move(content));
  return Listing{{{"contents", std::move(contents)}}, found->ttl_ms};
}

}  // namespace membrane::mcp
