#include "policy/credentials.h"

#include <algorithm>
#include <array>

#include "policy/http_names.h"

namespace membrane::policy {
namespace {

constexpr std::array<std::string_view, 6> kNames = {
    "authorization", "proxy-authorization", "cookie", "set-cookie", "apikey", "x-apikey"};
constexpr std::array<std::string_view, 4> kLastWords = {"token", "key", "secret", "password"};

// "name=value", or something else.
std::string parameter_without_credential(std::string_view parameter) {
  const size_t equals = parameter.find('=');
  if (equals == std::string_view::npos || !is_name_of_credential(parameter.substr(0, equals)))
    return std::string(parameter);
  return std::string(parameter.substr(0, equals + 1)).append(kHiddenCredential);
}

// The length of the JSON string that the text begins with, including its quotes; of all of the text if it has no end.
size_t length_of_string(std::string_view text) {
  for (size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '\\') ++i;
    else if (text[i] == '"') return i + 1;
  }
  return text.size();
}

size_t after_space(std::string_view text, size_t at) {
  return std::min(text.find_first_not_of(" \t\r\n", at), text.size());
}

}  // namespace

bool is_name_of_credential(std::string_view name) {
  const std::string folded = folded_header(name);
  if (std::ranges::find(kNames, folded) != kNames.end()) return true;
  return std::ranges::any_of(kLastWords, [&](std::string_view word) {
    return folded == word || (folded.ends_with(word) && folded[folded.size() - word.size() - 1] == '-');
  });
}

std::string without_credentials(std::string_view url) {
  constexpr std::string_view kAfterScheme = "://";
  std::string out;
  if (const size_t scheme = url.find(kAfterScheme); scheme != std::string_view::npos) {
    const size_t begin = scheme + kAfterScheme.size();
    const std::string_view authority = url.substr(begin, url.find_first_of("/?#", begin) - begin);
    if (const size_t user = authority.rfind('@'); user != std::string_view::npos) {
      out.append(url.substr(0, begin)).append(kHiddenCredential);
      url.remove_prefix(begin + user);
    }
  }
  size_t at = std::min(url.find_first_of("?#"), url.size());
  out += url.substr(0, at);
  while (at < url.size()) {
    const size_t end = std::min(url.find_first_of("?#&;", at + 1), url.size());
    out += url[at];
    out += parameter_without_credential(url.substr(at + 1, end - at - 1));
    at = end;
  }
  return out;
}

// A name with an escape in it is taken for one of a credential.
std::string json_without_credentials(std::string_view json, size_t most_bytes) {
  std::string out;
  for (size_t at = 0; at < json.size() && out.size() < most_bytes;) {
    const size_t quote = std::min(json.find('"', at), json.size());
    out += json.substr(at, quote - at);
    const std::string_view text = json.substr(quote, length_of_string(json.substr(quote)));
    out += text;
    at = quote + text.size();
    const size_t colon = after_space(json, at);
    if (colon == json.size() || json[colon] != ':') continue;
    const size_t value = after_space(json, colon + 1);
    const std::string_view name = text.substr(1, text.size() - 2);
    if (value == json.size() || json[value] != '"') continue;
    if (!name.contains('\\') && !is_name_of_credential(name)) continue;
    out.append(json.substr(at, value - at)).append("\"").append(kHiddenCredential).append("\"");
    at = value + length_of_string(json.substr(value));
  }
  return out;
}

}  // namespace membrane::policy
