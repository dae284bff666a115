#include "policy/url.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "base/curl.h"

namespace membrane::policy {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_alpha(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  c = lower(c);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

std::unexpected<Error> refuse(std::string message, std::string hint) {
  return fail(ErrorCode::kInvalidArgument, std::move(message), std::move(hint));
}

// Checks the text before any parser sees it. The messages never repeat the text: it may be hostile.
Status check_characters(std::string_view text) {
  if (text.size() > Url::kMaxBytes)
    return fail(ErrorCode::kExhausted, "The URL is longer than " + std::to_string(Url::kMaxBytes) + " bytes.",
                "send long data in a request body");
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= 0x20 || byte == 0x7f)
      return refuse("The URL contains a space or a control character.", "percent-encode it: a space is %20");
    if (byte >= 0x80)
      return refuse("The URL contains a character that is not ASCII.",
                    "percent-encode it in a path or query; write a host name in punycode (xn--…)");
    if (c == '\\') return refuse("The URL contains a backslash.", "write / or %5C");
  }
  return {};
}

// How many dots a segment has if it is "." or "..", in any spelling with %2e.
int dot_count(std::string_view segment) {
  int dots = 0;
  while (!segment.empty()) {
    if (segment[0] == '.') {
      segment.remove_prefix(1);
    } else if (segment.size() >= 3 && segment[0] == '%' && segment[1] == '2' && lower(segment[2]) == 'e') {
      segment.remove_prefix(3);
    } else {
      return 0;
    }
    if (++dots > 2) return 0;
  }
  return dots;
}

std::vector<std::string_view> segments_of(std::string_view path) {
  std::vector<std::string_view> out;
  path.remove_prefix(1);  // every path begins with "/"
  for (;;) {
    const size_t slash = path.find('/');
    out.push_back(path.substr(0, slash));
    if (slash == std::string_view::npos) return out;
    path.remove_prefix(slash + 1);
  }
}

std::string join(const std::vector<std::string_view>& segments) {
  std::string out;
  for (const std::string_view segment : segments) out.append("/").append(segment);
  return out;
}

// RFC 3986, 5.2.4, with %2e read as "." as the web does. Empty segments stay.
std::string remove_dot_segments(std::string_view path) {
  std::vector<std::string_view> out;
  const auto segments = segments_of(path);
  for (size_t i = 0; i < segments.size(); ++i) {
    const bool last = i + 1 == segments.size();
    const int dots = dot_count(segments[i]);
    if (dots == 0) {
      out.push_back(segments[i]);
      continue;
    }
    if (dots == 2 && !out.empty()) out.pop_back();
    if (last) out.push_back("");
  }
  return join(out);
}

Status check_escapes(std::string_view text, bool control_refused) {
  for (size_t i = text.find('%'); i != std::string_view::npos; i = text.find('%', i + 1)) {
    const int high = i + 2 < text.size() ? hex_value(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? hex_value(text[i + 2]) : -1;
    if (high < 0 || low < 0)
      return refuse("The URL contains a % that is not followed by two hex digits.",
                    "write a literal % as %25");
    const int byte = high * 16 + low;
    if (control_refused && (byte < 0x20 || byte == 0x7f))
      return refuse("The URL's path contains an encoded control character.",
                    "remove it, or put it in the query");
  }
  return {};
}

// A host name: labels of letters, digits, "-" and "_". A last label that begins like a number is refused: some
// resolvers would read it as part of an address (inet_aton).
Status check_host_name(std::string_view host) {
  const auto bad = [] {
    return refuse("The URL's host is neither a host name nor an IP address.",
                  "write it as example.org, 192.0.2.1 or [2001:db8::1]");
  };
  if (host.empty() || host.size() > 253) return bad();
  std::string_view rest = host, label;
  for (;;) {
    const size_t dot = rest.find('.');
    label = rest.substr(0, dot);
    if (label.empty() || label.size() > 63) return bad();
    for (const char c : label)
      if (!is_alpha(c) && !is_digit(c) && c != '-' && c != '_') return bad();
    if (dot == std::string_view::npos) break;
    rest.remove_prefix(dot + 1);
  }
  const bool number = std::all_of(label.begin(), label.end(), is_digit) || label.starts_with("0x");
  return number ? Status(bad()) : Status();
}

// Owns a CURLU and turns its parts into strings.
class Handle {
 public:
  explicit Handle(const CurlApi& api) : api_(api), url_(api.url_new()) {}
  ~Handle() { api_.url_cleanup(url_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  CURLUcode set(CURLUPart part, const std::string& text, unsigned flags) {
    return api_.url_set(url_, part, text.c_str(), flags);
  }
  std::optional<std::string> get(CURLUPart part, unsigned flags = 0) {
    char* text = nullptr;
    if (api_.url_get(url_, part, &text, flags) != CURLUE_OK || text == nullptr) return std::nullopt;
    std::string out(text);
    api_.free_string(text);
    return out;
  }
  [[nodiscard]] std::string why(CURLUcode code) const { return api_.url_strerror(code); }

 private:
  const CurlApi& api_;
  CURLU* url_;
};

Status set_host(Url& url, std::string host) {
  std::transform(host.begin(), host.end(), host.begin(), lower);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    url.address = Address::parse(std::string_view(host).substr(1, host.size() - 2));
    if (!url.address || url.address->is_v4())
      return refuse("The URL's host is a malformed IPv6 address.", "write it as [2001:db8::1]");
  } else {
    if (host.ends_with('.')) host.pop_back();  // the DNS root: the same host
    url.address = Address::parse(host);        // libcurl has made "0x7f.1" into dotted form
    if (url.address && !url.address->is_v4()) url.address.reset();
  }
  url.host = url.address ? url.address->to_string() : host;
  return url.address ? Status() : check_host_name(url.host);
}

// --- how lenient servers read a path -------------------------------------------------------

// Characters that servers which normalise Unicode, or map it to a best fit, take for characters that structure a
// path.
struct Lookalike {
  std::string_view utf8;
  std::string_view ascii;
};
constexpr Lookalike kLookalikes[] = {
    {"\xef\xbc\x8e", "."},   // fullwidth full stop
    {"\xef\xb9\x92", "."},   // small full stop
    {"\xe2\x80\xa4", "."},   // one dot leader
    {"\xe2\x80\xa5", ".."},  // two dot leader
    {"\xef\xbc\x8f", "/"},   // fullwidth solidus
    {"\xe2\x88\x95", "/"},   // division slash
    {"\xe2\x81\x84", "/"},   // fraction slash
    {"\xef\xbc\xbc", "\\"},  // fullwidth reverse solidus
    {"\xef\xb9\xa8", "\\"},  // small reverse solidus
    {"\xe2\x88\x96", "\\"},  // set minus
    {"\xef\xbc\x9b", ";"},   // fullwidth semicolon
    {"\xef\xbc\x85", "%"},   // fullwidth percent sign
};

// The value of `digits` hex digits at the end of `text`, or -1.
int hex_at_end(std::string_view text, size_t digits) {
  int value = 0;
  for (const char c : text.substr(text.size() - digits)) {
    const int digit = hex_value(c);
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

void append_utf8(std::string& text, int code_point) {
  if (code_point < 0x80) {
    text += static_cast<char>(code_point);
  } else if (code_point < 0x800) {
    text += static_cast<char>(0xc0 | (code_point >> 6));
    text += static_cast<char>(0x80 | (code_point & 0x3f));
  } else {
    text += static_cast<char>(0xe0 | (code_point >> 12));
    text += static_cast<char>(0x80 | ((code_point >> 6) & 0x3f));
    text += static_cast<char>(0x80 | (code_point & 0x3f));
  }
}

// Replaces the escape (%2e, %u002e) or the lookalike at the end of `text`. False if there is none.
bool reduce_end(std::string& text) {
  const size_t size = text.size();
  if (size >= 3 && text[size - 3] == '%') {
    const int byte = hex_at_end(text, 2);
    if (byte < 0) return false;
    text.resize(size - 3);
    text += static_cast<char>(byte);
    return true;
  }
  if (size >= 6 && text[size - 6] == '%' && lower(text[size - 5]) == 'u') {
    const int code_point = hex_at_end(text, 4);
    if (code_point < 0) return false;
    text.resize(size - 6);
    append_utf8(text, code_point);
    return true;
  }
  if (static_cast<unsigned char>(text.back()) < 0x80) return false;
  for (const auto& [utf8, ascii] : kLookalikes) {
    if (!text.ends_with(utf8)) continue;
    text.resize(size - utf8.size());
    text += ascii;
    return true;
  }
  return false;
}

// Decodes the path's escapes until none is left, and reads "\" and its lookalikes as "/". One pass: a decoded
// character may complete an escape that began before it, which is then at the end of the text read so far; and each
// replacement shortens the text.
std::string decoded(std::string_view path) {
  std::string text;
  text.reserve(path.size() + 1);
  for (const char c : path) {
    text += c;
    while (reduce_end(text)) {}
  }
  std::replace(text.begin(), text.end(), '\\', '/');
  if (!text.starts_with('/')) text.insert(0, "/");
  return text;
}

// UTF-8 that spells a character in more bytes than it needs. C0 and C1 are never valid lead bytes, and decoders that
// ignore the upper bits of the next byte turn them and any byte into an ASCII character.
bool has_overlong_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const auto first = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    if (first == 0xc0 || first == 0xc1) return true;
    if ((first == 0xe0 && next >= 0x80 && next < 0xa0) || (first == 0xf0 && next >= 0x80 && next < 0x90) ||
        (first == 0xf8 && next >= 0x80 && next < 0x88) || (first == 0xfc && next >= 0x80 && next < 0x84))
      return true;
  }
  return false;
}

std::string_view without_parameters(std::string_view segment) { return segment.substr(0, segment.find(';')); }

}  // namespace

PathReading read_path(std::string_view path) {
  const std::string text = decoded(path);
  PathReading reading;
  reading.has_overlong = has_overlong_utf8(text);
  std::vector<std::string_view> out;
  std::string_view last;
  for (const std::string_view segment : segments_of(text)) {
    last = without_parameters(segment);
    if (last == "..") {
      reading.climbs = true;
      if (!out.empty()) out.pop_back();
    } else if (!last.empty() && last != ".") {
      out.push_back(last);
    }
  }
  const bool directory = last.empty() || last == "." || last == "..";
  reading.path = join(out) + (directory ? "/" : "");
  return reading;
}

namespace {

Status set_path(Url& url, std::string_view path) {
  if (!path.starts_with('/'))
    return refuse("The URL's path does not begin with a slash.", "write one after the host");
  MEMBRANE_TRY(check_escapes(path, true));
  url.path = remove_dot_segments(path);
  url.reading = read_path(url.path);
  if (url.reading.has_overlong)
    return refuse("The URL's path contains overlong UTF-8, which servers decode in different ways.",
                  "percent-encode the shortest form of each character");
  return {};
}

constexpr unsigned kFlags = CURLU_PATH_AS_IS | CURLU_DISALLOW_USER;

Result<Url> take_parts(Handle& handle) {
  if (handle.get(CURLUPART_USER) || handle.get(CURLUPART_PASSWORD) || handle.get(CURLUPART_OPTIONS))
    return refuse("The URL contains user information.", "remove everything before the @");
  if (handle.get(CURLUPART_ZONEID))
    return refuse("The URL's host has a zone identifier.", "remove the %25 and what follows it");
  Url url;
  url.scheme = handle.get(CURLUPART_SCHEME).value_or("");
  if (url.scheme != "http" && url.scheme != "https")
    return refuse("The URL's scheme is neither http nor https.", "only http and https can be granted");
  MEMBRANE_TRY(set_host(url, handle.get(CURLUPART_HOST).value_or("")));
  const std::string port = handle.get(CURLUPART_PORT, CURLU_DEFAULT_PORT).value_or("0");
  url.port = static_cast<uint16_t>(std::stoul(port));  // libcurl lets through 0 to 65535 only
  if (url.port == 0) return refuse("The URL's port is 0.", "leave the port out, or give the server's");
  MEMBRANE_TRY(set_path(url, handle.get(CURLUPART_PATH).value_or("/")));
  url.query = handle.get(CURLUPART_QUERY);
  if (url.query) MEMBRANE_TRY(check_escapes(*url.query, false));
  return url;
}

std::unexpected<Error> describe_failure(std::string_view text, CURLUcode code, const std::string& why) {
  if (code == CURLUE_USER_NOT_ALLOWED)
    return refuse("The URL contains user information.", "remove everything before the @");
  if (code == CURLUE_BAD_SCHEME || text.find("://") == std::string_view::npos)
    return refuse("The URL has no scheme.", "begin it with https:// or http://");
  if (code == CURLUE_UNSUPPORTED_SCHEME)
    return refuse("The URL's scheme is neither http nor https.", "only http and https can be granted");
  if (code == CURLUE_NO_HOST) return refuse("The URL has no host.", "write https://host/path");
  return refuse("The URL is malformed: " + why + ".", "write it as https://host/path?query");
}

}  // namespace

std::string Url::authority_host() const { return address && !address->is_v4() ? "[" + host + "]" : host; }

std::string Url::origin() const {
  const bool usual = port == (scheme == "https" ? 443 : 80);
  return scheme + "://" + authority_host() + (usual ? "" : ":" + std::to_string(port));
}

std::string Url::text() const { return origin() + path + (query ? "?" + *query : ""); }

bool Url::same_origin(const Url& other) const {
  return scheme == other.scheme && host == other.host && port == other.port;
}

Result<Url> parse_url(std::string_view text) {
  MEMBRANE_TRY(check_characters(text));
  MEMBRANE_ASSIGN(const CurlApi* api, curl());
  Handle handle(*api);
  if (const CURLUcode code = handle.set(CURLUPART_URL, std::string(text), kFlags); code != CURLUE_OK)
    return describe_failure(text, code, handle.why(code));
  return take_parts(handle);
}

Result<Url> parse_url(std::string_view reference, const Url& base) {
  MEMBRANE_TRY(check_characters(reference));
  if (reference.empty()) return refuse("The redirect names no target.", "");
  MEMBRANE_ASSIGN(const CurlApi* api, curl());
  Handle handle(*api);
  if (const CURLUcode code = handle.set(CURLUPART_URL, base.text(), kFlags); code != CURLUE_OK)
    return describe_failure(base.text(), code, handle.why(code));
  if (const CURLUcode code = handle.set(CURLUPART_URL, std::string(reference), kFlags); code != CURLUE_OK)
    return describe_failure(reference, code, handle.why(code));
  return take_parts(handle);
}

}  // namespace membrane::policy
