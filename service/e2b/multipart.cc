#include "service/e2b/multipart.h"

#include <algorithm>
#include <optional>

#include "base/text.h"
#include "base/utf8.h"

namespace membrane::service::e2b {
namespace {

constexpr size_t kMostBoundaryBytes = 70;
constexpr size_t kMostHeadBytes = 8u << 10;  // of one part

std::unexpected<ApiError> malformed(const char* what) {
  return refuse(ApiCode::kInvalidRequest, std::string("the form ") + what,
                "Send multipart/form-data, or the bytes alone as application/octet-stream.");
}

// The value of a header's parameter: `form-data; name="file"; filename="a"`. Browsers and clients write a
// quote inside one as %22 or with a backslash.
std::optional<std::string> parameter(std::string_view header, std::string_view name) {
  size_t at = header.find(';');
  while (at < header.size()) {
    ++at;
    while (at < header.size() && (header[at] == ' ' || header[at] == '\t')) ++at;
    const size_t equals = header.find('=', at);
    if (equals == std::string_view::npos) return std::nullopt;
    const bool is_it = lower_case(trimmed(header.substr(at, equals - at))) == name;
    std::string value;
    at = equals + 1;
    if (at < header.size() && header[at] == '"') {
      for (++at; at < header.size() && header[at] != '"'; ++at) {
        if (header[at] == '\\' && at + 1 < header.size() && (header[at + 1] == '"' || header[at + 1] == '\\'))
          ++at;
        value += header[at];
      }
      if (at == header.size()) return std::nullopt;
      at = header.find(';', at);
    } else {
      const size_t end = std::min(header.find(';', at), header.size());
      value = trimmed(header.substr(at, end - at));
      at = end;
    }
    if (is_it) return value;
  }
  return std::nullopt;
}

// How clients encode the three characters that a quoted name cannot contain (the HTML standard, "multipart
// form data").
std::string unescaped(std::string text) {
  constexpr std::pair<std::string_view, char> kEscapes[] = {{"%22", '"'}, {"%0D", '\r'}, {"%0A", '\n'}};
  for (const auto& [escape, character] : kEscapes)
    for (size_t at = 0; (at = text.find(escape, at)) != std::string::npos; ++at)
      text.replace(at, escape.size(), 1, character);
  return text;
}

// Reads a part's head: only Content-Disposition matters.
Answer<FormPart> read_head(std::string_view head) {
  constexpr std::string_view kDisposition = "content-disposition:";
  while (!head.empty()) {
    const size_t end = std::min(head.find("\r\n"), head.size());
    const std::string_view line = head.substr(0, end);
    head.remove_prefix(std::min(end + 2, head.size()));
    if (lower_case(line.substr(0, kDisposition.size())) != kDisposition) continue;
    auto name = parameter(line, "name");
    if (!name) return malformed("has a part without a name");
    FormPart part{unescaped(*std::move(name)), unescaped(parameter(line, "filename").value_or("")), {}};
    if (!is_utf8(part.name) || !is_utf8(part.file_name)) return malformed("has a name that is not UTF-8");
    return part;
  }
  return malformed("has a part without Content-Disposition");
}

}  // namespace

Answer<std::vector<FormPart>> read_form(std::string_view content_type, std::string_view body) {
  const auto boundary = parameter(content_type, "boundary");
  if (!boundary || boundary->empty() || boundary->size() > kMostBoundaryBytes)
    return malformed("has no boundary in Content-Type");
  const std::string first = "--" + *boundary;
  const std::string between = "\r\n" + first;
  if (body.starts_with(first)) body.remove_prefix(first.size());
  else if (const size_t at = body.find(between); at != std::string_view::npos)
    body.remove_prefix(at + between.size());
  else return malformed("does not begin with its boundary");
  std::vector<FormPart> parts;
  while (!body.starts_with("--")) {
    const size_t line_end = body.find("\r\n");
    if (line_end == std::string_view::npos || !trimmed(body.substr(0, line_end)).empty())
      return malformed("has something beside a boundary");
    body.remove_prefix(line_end);
    const size_t head_end = body.substr(0, kMostHeadBytes).find("\r\n\r\n");
    if (head_end == std::string_view::npos) return malformed("has a part whose head does not end");
    auto part = read_head(head_end == 0 ? "" : body.substr(2, head_end - 2));
    if (!part) return std::unexpected(part.error());
    body.remove_prefix(head_end + 4);
    // The boundary's line break may be that of the head, when the part is empty.
    const size_t end = body.find(between);
    if (end == std::string_view::npos) return malformed("does not end with its boundary");
    part->bytes = body.substr(0, end);
    body.remove_prefix(end + between.size());
    if (parts.size() == kMostParts)
      return refuse(ApiCode::kTooLarge, "the form has too many parts", "Send fewer files at once.");
    parts.push_back(*std::move(part));
  }
  return parts;
}

}  // namespace membrane::service::e2b
