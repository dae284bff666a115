#include "policy/likely_grant.h"

#include <algorithm>
#include <filesystem>
#include <ranges>
#include <vector>

#include "policy/address.h"
#include "policy/names.h"

namespace membrane::policy {
namespace {

constexpr std::string_view kExampleUrl = "https://example.org/*";
constexpr std::string_view kExampleDirectory = "./data";

template <size_t kCount>
bool is_one(std::string_view word, const std::string_view (&words)[kCount]) {
  return std::ranges::find(words, word) != std::end(words);
}

std::string in_case(std::string_view text, int (*convert)(int)) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(convert(static_cast<unsigned char>(c)));
  return out;
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_alphanumeric(char c) { return is_letter(c) || (c >= '0' && c <= '9'); }

// -- http ----------------------------------------------------------------------

// "example.org" for "example.org:8000/a?b".
std::string_view host_in(std::string_view text) {
  if (text.starts_with('[')) return text.substr(1, std::min(text.find(']'), text.size()) - 1);
  return text.substr(0, text.find_first_of(":/?#"));
}

bool is_of_this_network(std::string_view host) {
  const auto address = Address::parse(host);
  return host == "localhost" || (address && !special_kind(*address).empty());
}

// A domain with all below it ("*.example.org") is one, too.
bool is_host(std::string_view host) {
  if (host == "localhost" || Address::parse(host)) return true;
  if (host.starts_with("*.")) host.remove_prefix(2);
  return host.contains('.') && !host.starts_with('.') && !host.ends_with('.') &&
         std::ranges::all_of(host, [](char c) { return is_alphanumeric(c) || c == '-' || c == '.'; });
}

// Unlike "http.get", it cannot be a function's name.
bool is_surely_host(std::string_view host) {
  constexpr std::string_view kEndings[] = {"com", "org", "net", "edu", "gov", "io", "dev", "app"};
  return is_host(host) && (is_of_this_network(host) || Address::parse(host) ||
                           is_one(host.substr(host.rfind('.') + 1), kEndings));
}

// "GET" for "get"; "" for what is no method.
std::string_view likely_method(std::string_view word) {
  return nearest(in_case(word, std::toupper), {std::begin(kMethods), std::end(kMethods)});
}

// Whether the text before a URL is meant as its methods.
bool is_methods(std::string_view text) {
  return std::ranges::any_of(std::views::split(text, ','), [](const auto part) {
    const std::string_view word(part.begin(), part.end());
    return word == "*" || !likely_method(word).empty();
  });
}

std::string likely_methods(std::string_view text) {
  std::vector<std::string_view> methods;
  const auto add = [&](std::string_view method) {
    if (!method.empty() && std::ranges::find(methods, method) == methods.end()) methods.push_back(method);
  };
  for (const auto part : std::views::split(text, ',')) {
    const std::string_view word(part.begin(), part.end());
    add(word == "*" ? "GET" : likely_method(word));
    if (word == "*") add("POST");
  }
  std::string out;
  for (const std::string_view method : methods) out.append(out.empty() ? "" : ",").append(method);
  return out.empty() ? "GET" : out;
}

std::string likely_url(std::string_view text, bool is_page_meant) {
  const size_t end = text.find("://");
  const std::string_view scheme = end == std::string_view::npos ? "" : text.substr(0, end + 3);
  std::string_view rest = text.substr(scheme.size(), text.find('#') - scheme.size());
  while (rest.starts_with('/')) rest.remove_prefix(1);
  const size_t user = rest.substr(0, rest.find('/')).find('@');
  if (user != std::string_view::npos) rest.remove_prefix(user + 1);
  if (!is_host(host_in(rest))) return std::string(kExampleUrl);
  std::string url(!scheme.empty() ? scheme : is_of_this_network(host_in(rest)) ? "http://" : "https://");
  const std::string_view authority = rest.substr(0, rest.find_first_of("/?"));
  const std::string_view path = rest.substr(authority.size());
  url.append(authority);
  if (path.empty() || (path == "/" && !is_page_meant)) return url + "/*";
  return url.append(path.starts_with('?') ? "/" : "").append(path);
}

// For what follows "http:"; the URL alone is one without methods.
std::string likely_http(std::string_view text) {
  if (text.empty()) return "";
  const std::string_view head = text.substr(0, text.find(':'));
  const bool has_methods = head.size() < text.size() && head != "http" && head != "https" &&
                           !text.starts_with('[') && !is_host(host_in(head)) &&
                           (is_methods(head) || text.substr(head.size()).contains("://"));
  if (!has_methods && !text.contains('/') && !text.starts_with('[') && is_host(host_in(text)))
    return "http:" + std::string(text);
  const std::string_view url = has_methods ? text.substr(head.size() + 1) : text;
  return "http:" + (has_methods ? likely_methods(head) : "GET") + ":" + likely_url(url, has_methods);
}

// -- files ------------------------------------------------------------------------

bool is_path(std::string_view text) {
  return text == "." || text == ".." || text.starts_with("./") || text.starts_with("../") ||
         text.starts_with('/') || text.starts_with('~');
}

// "read" or "write" for a word by which people and other programs mean one; "" for another.
std::string_view likely_mode(std::string_view word) {
  constexpr std::string_view kRead[] = {"r", "ro", "readonly", "read-only", "links", "link"};
  constexpr std::string_view kWrite[] = {"w", "rw", "wr", "read-write", "readwrite", "write-only"};
  if (is_one(word, kRead)) return "read";
  return is_one(word, kWrite) ? "write" : nearest(word, {"read", "write"});
}

// A directory, with the place at which the program sees it if one was named or is necessary.
std::string likely_directory(std::string_view text) {
  if (text.empty()) text = kExampleDirectory;
  const size_t colon = text.rfind(":/");
  const std::filesystem::path host(text.substr(0, colon));
  if (colon != std::string_view::npos)
    return host.string() + ":" + std::filesystem::path(text.substr(colon + 1)).lexically_normal().string();
  const std::filesystem::path normal = (host / "").lexically_normal().parent_path();
  const bool is_unnamed = host != "." && (normal.filename() == ".." || !host.has_relative_path() ||
                                          host.filename() == "." || host.filename() == "..");
  return host.string() + (is_unnamed ? ":/work" : "");
}

// For what follows "fs:".
std::string likely_fs(std::string_view text) {
  const std::string_view words = text.substr(0, text.find(':'));
  const std::string_view word = words.substr(0, words.find(','));
  std::string_view mode = is_path(words) || word.empty() ? "" : likely_mode(word);
  const bool is_mode =
      !mode.empty() || (words.size() < text.size() && !text.substr(words.size()).starts_with(":/") &&
                        !words.contains('.') && !words.contains('/'));
  if (is_mode) text.remove_prefix(std::min(words.size() + 1, text.size()));
  for (const auto& [ending, meant] : {std::pair<std::string_view, std::string_view>(":ro", "read"),
                                      std::pair<std::string_view, std::string_view>(":rw", "write")}) {
    if (!text.ends_with(ending)) continue;
    text.remove_suffix(ending.size());
    if (mode.empty()) mode = meant;
  }
  std::string grant = "fs:" + std::string(mode.empty() ? "read" : mode);
  if (is_mode && words.contains("link")) grant += ",links";
  return grant + ":" + likely_directory(text);
}

// -- the others ---------------------------------------------------------------------

// A file for SQLite: not ":memory:", nor a URL.
std::string likely_database(std::string_view path, std::string_view example) {
  if (path.starts_with("file:")) path.remove_prefix(5);
  return std::string(path.empty() || path.starts_with(':') ? example : path);
}

std::string likely_kv(std::string_view text) {
  return text == ":memory:" ? "kv" : "kv:" + likely_database(text, "./store.db");
}

std::string likely_sql(std::string_view text) {
  const size_t colon = text.find(':');
  const bool is_named = colon != std::string_view::npos && colon != 0;
  const std::string path = likely_database(text.substr(colon == std::string_view::npos ? 0 : colon + 1), "");
  std::string name(is_named ? text.substr(0, colon) : "");
  if (!is_named) name = std::filesystem::path(path).stem().string();
  if (colon == std::string_view::npos && !path.contains('.') && !path.contains('/'))
    return "sql:" + (path.empty() ? "data" : path) + ":./data.db";  // a name alone
  std::ranges::replace_if(name, [](char c) { return !is_alphanumeric(c); }, '_');
  if (name.empty() || !is_letter(name[0])) name.insert(0, "db");
  return "sql:" + name + ":" + (path.empty() ? "./data.db" : path);
}

constexpr std::string_view kCapabilities[] = {"http", "fs", "kv", "sql", "ai", "time", "random", "ask"};

std::string likely_of(std::string_view capability, std::string_view rest) {
  if (capability == "http") return likely_http(rest);
  if (capability == "fs") return likely_fs(rest);
  if (capability == "kv") return likely_kv(rest);
  return capability == "sql" ? likely_sql(rest) : std::string(capability);
}

}  // namespace

std::string likely_grant(std::string_view text) {
  const std::string scheme = in_case(text.substr(0, text.find("://")), std::tolower);
  if (scheme.size() < text.size() && (scheme == "http" || scheme == "https"))
    return likely_http(scheme + std::string(text.substr(scheme.size())));
  if (is_path(text)) return likely_fs(text);
  const std::string what = in_case(text.substr(0, text.find(':')), std::tolower);
  const std::string_view rest = text.substr(std::min(what.size() + 1, text.size()));
  if (is_one(what, kCapabilities)) return likely_of(what, rest);
  if (what == "https") return likely_http(rest);
  if (is_surely_host(host_in(text))) return likely_http(text);
  if (!rest.empty() && !likely_mode(what).empty()) return likely_fs(text);
  if (!rest.empty() && is_methods(what)) return likely_http(text);
  const std::string_view near =
      nearest(what.substr(0, what.find('.')), {std::begin(kCapabilities), std::end(kCapabilities)});
  if (!near.empty()) return what.contains('.') ? "" : likely_of(near, rest);
  return is_host(host_in(text)) ? likely_http(text) : "";
}

}  // namespace membrane::policy
