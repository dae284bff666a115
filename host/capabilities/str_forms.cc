#include "host/capabilities/str_forms.h"

#include <algorithm>

#include "base/base64.h"
#include "host/capabilities/read_json.h"
#include "host/text/html_text.h"
#include "policy/url.h"

namespace membrane::host {
namespace {

using nlohmann::json;

// RFC 3986, section 2.3: characters that need no escape.
bool is_unreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
         c == '_' || c == '~';
}

}  // namespace

HostResult<Value> url_encode(Call& call) {
  const auto plain = static_cast<uint64_t>(std::ranges::count_if(call.text(0), is_unreserved));
  const uint64_t size = plain + 3 * (call.text(0).size() - plain);
  MEMBRANE_TRY(call.check_size(size));
  std::string encoded;
  encoded.reserve(size);
  for (const char c : call.text(0)) {
    const auto byte = static_cast<uint8_t>(c);
    if (is_unreserved(c)) {
      encoded += c;
    } else {
      encoded += '%';
      encoded += "0123456789ABCDEF"[byte >> 4];
      encoded += "0123456789ABCDEF"[byte & 15];
    }
  }
  return encoded;
}

HostResult<Value> url_join(Call& call) {
  const auto text_of = [](Result<policy::Url> url) -> HostResult<Value> {
    if (!url) return refuse(Errno::kInvalid, std::move(url.error().message));
    return url->text();
  };
  auto base = policy::parse_url(call.text(0));
  if (!base) return text_of(std::move(base));
  return text_of(policy::parse_url(call.text(1), *base));
}

HostResult<Value> to_base64(Call& call) {
  MEMBRANE_TRY(call.check_size((call.text(0).size() + 2) / 3 * 4));
  return base64_encode(call.text(0));
}
HostResult<Value> from_base64(Call& call) {
  MEMBRANE_TRY(call.check_size(call.text(0).size() / 4 * 3));
  auto bytes = base64_decode(call.text(0));
  if (!bytes) return refuse(Errno::kInvalid, "the text is not Base64 with its padding");
  return std::move(*bytes);
}

HostResult<Value> text_of_html(Call& call) {
  MEMBRANE_TRY(call.check_size(call.text(0).size()));
  return html_text(call.text(0));
}

HostResult<Value> links_of_html(Call& call) {
  MEMBRANE_TRY(call.check_size(call.text(0).size()));
  const auto links = html_links(call.text(0));
  constexpr uint64_t kNames = 24;  // and punctuation, per link
  uint64_t size = call.text(0).size();
  for (const HtmlLink& link : links) size += kNames + json_text_bytes(link.href) + json_text_bytes(link.text);
  MEMBRANE_TRY(call.check_size(size));
  std::string array = "[";
  array.reserve(size);
  for (const HtmlLink& link : links) {
    if (array.size() > 1) array += ',';
    array += json_text(json{{"href", link.href}, {"text", link.text}});
  }
  array += ']';
  return array;
}

}  // namespace membrane::host
