// /files of E2B's sandboxes: downloads and uploads, of one file or several at once.

#include <algorithm>

#include "base/text.h"
#include "service/e2b/handlers.h"
#include "service/e2b/multipart.h"

namespace membrane::service::e2b {
namespace {

// Files of Linux sandboxes are read and written as root; relative paths start at the home of the usual user.
Answer<void> check_user(const Service& service, const SharedCall& call) {
  const auto user = call->request.query_value("username");
  if (!user || *user == "root" || *user == "user") return {};
  const auto info = service.sandboxes.get(call->known->tenant, call->known->id);
  if (!info || info->kind != Kind::kLinux) return {};
  return refuse(ApiCode::kUnsupported, "files are written as root here, and not as " + std::string(*user),
                "Leave the user out, and run chown by commands.run().");
}

void read(const Service& service, const SharedCall& call) {
  const auto path = call->request.query_value("path");
  if (!path) return call->refuse({ApiCode::kInvalidRequest, "\"path\" is missing"});
  service.sandboxes.read_file(call->actor(), call->known->id, "", absolute_path(*path),
                              [call](Answer<std::string> bytes) {
                                if (!bytes) return call->refuse(bytes.error());
                                call->reply({.status = 200,
                                             .headers = {{"Content-Type", "application/octet-stream"}},
                                             .body = *std::move(bytes)});
                              });
}

struct Upload {
  std::string path;
  std::string_view bytes;  // of the call's body
};

// Writes one after another; the answer lists all of them once they are written.
void write_from(const Service& service, const SharedCall& call,
                const std::shared_ptr<std::vector<Upload>>& uploads, size_t at) {
  if (at == uploads->size()) {
    OrderedJson list = OrderedJson::array();
    for (const Upload& each : *uploads)
      list.push_back(
          {{"name", each.path.substr(each.path.rfind('/') + 1)}, {"type", "file"}, {"path", each.path}});
    return call->reply(json_response(200, list.dump()));
  }
  const Upload& next = (*uploads)[at];
  service.sandboxes.write_file(call->actor(), call->known->id, "", next.path, std::string(next.bytes),
                               [service, call, uploads, at](const Answer<void>& done) {
                                 if (!done) return call->refuse(done.error());
                                 write_from(service, call, uploads, at + 1);
                               });
}

// The files of a body. The path of a single file is in the query; those of several files are their names in
// the form.
Answer<std::vector<Upload>> uploads_of(const Request& request) {
  const auto path = request.query_value("path");
  const std::string_view type = request.headers.find("Content-Type").value_or("");
  if (!lower_case(type).starts_with("multipart/form-data")) {
    if (!path) return refuse(ApiCode::kInvalidRequest, "\"path\" is missing");
    return std::vector<Upload>{{absolute_path(*path), request.body}};
  }
  const auto parts = read_form(type, request.body);
  if (!parts) return std::unexpected(parts.error());
  std::vector<Upload> uploads;
  for (const FormPart& part : *parts) {
    if (part.name != "file") continue;
    const std::string_view own = path ? *path : std::string_view(part.file_name);
    if (own.empty()) return refuse(ApiCode::kInvalidRequest, "a file of the form has no name");
    uploads.push_back({absolute_path(own), part.bytes});
  }
  if (uploads.empty()) return refuse(ApiCode::kInvalidRequest, "the form has no part \"file\"");
  if (path && uploads.size() > 1)
    return refuse(ApiCode::kInvalidRequest, "the form has several files, and \"path\" names one");
  return uploads;
}

void write(const Service& service, const SharedCall& call) {
  const Request& request = call->request;
  if (request.headers.find("Content-Encoding").value_or("identity") != "identity")
    return call->refuse({ApiCode::kUnsupportedMediaType, "compressed uploads are not supported",
                         "Send the file without gzip."});
  const auto is_metadata = [](const auto& field) {
    return lower_case(field.first).starts_with("x-metadata-");
  };
  if (std::ranges::any_of(request.headers.all(), is_metadata))
    return call->refuse(not_here("Metadata of files"));
  if (const auto checked = check_user(service, call); !checked) return call->refuse(checked.error());
  auto uploads = uploads_of(request);
  if (!uploads) return call->refuse(uploads.error());
  write_from(service, call, std::make_shared<std::vector<Upload>>(*std::move(uploads)), 0);
}

}  // namespace

void handle_files(const Service& service, const SharedCall& call) {
  const Request& request = call->request;
  const bool is_read = request.method == "GET";
  const std::string scope = is_read ? "files:read" : "files:write";
  if (!call->caller.may(scope)) return call->refuse(noted(service, call, scope));
  if (request.segments.size() != 1 || (!is_read && request.method != "POST"))
    return call->refuse(
        {ApiCode::kUnsupported, "the sandbox has no " + request.method + " " + request.target});
  if (is_read) read(service, call);
  else write(service, call);
}

}  // namespace membrane::service::e2b
