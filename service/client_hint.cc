#include "service/client_hint.h"

#include <algorithm>
#include <ranges>
#include <string_view>

#include "base/json.h"

namespace membrane::service {
namespace {

// The policy field for a word of the command line, as policy::allow_flag() writes it.
std::string without_quotes(std::string_view word) {
  if (word.size() < 2 || !word.starts_with('\'') || !word.ends_with('\'')) return std::string(word);
  std::string out(word.substr(1, word.size() - 2));
  constexpr std::string_view kQuote = "'\\''";
  for (size_t at = out.find(kQuote); at != std::string::npos; at = out.find(kQuote, at + 1))
    out.replace(at, kQuote.size(), "'");
  return out;
}

// What a client sends to get what a flag grants: `"kv": {}` for kv. "" for anything but a flag.
std::string instead_of(const std::string& grant) {
  const auto by = [](const std::string& field) {
    return "It would be allowed by " + field + " in the sandbox's policy.";
  };
  const size_t colon = std::min(grant.find(':'), grant.size());
  const std::string kind = grant.substr(0, colon);
  if (grant == "kv") return by("\"kv\": {}");
  if (grant == "time" || grant == "random") return by("\"" + kind + "\": {\"real\": true}");
  if (grant == "ai")
    return "A service has no model: a program reaches one by \"http\", with a secret in its headers.";
  if (grant == "ask")
    return "A service has nobody to ask: pass the program what it needs with its code, its input or its "
           "files.";
  if (kind == "fs" || kind == "sql")
    return "Over HTTP nobody is granted files of the machine: copy them into the sandbox (PUT …/files).";
  const size_t second = grant.find(':', colon + 1);
  if (kind != "http" || second == std::string::npos) return "";
  auto methods = nlohmann::json::array();
  for (const auto method :
       std::views::split(std::string_view(grant).substr(colon + 1, second - colon - 1), ','))
    methods.push_back(std::string(method.begin(), method.end()));
  return by("\"http\": [{\"methods\": " + json_text(methods) +
            ", \"url\": " + json_text(nlohmann::json(grant.substr(second + 1))) + "}]");
}

// A count is a number, and a size is text.
std::string json_amount(std::string_view amount) {
  const bool is_count = std::ranges::all_of(amount, [](char c) { return c >= '0' && c <= '9'; });
  return is_count ? std::string(amount) : json_text(nlohmann::json(std::string(amount)));
}

// "raise limits.fuel (--fuel 400)", "(limits.memory, --memory)": replaces the flag by the policy.
std::string with_limit_of_policy(std::string hint) {
  constexpr std::string_view kLimit = "limits.";
  const auto is_of_name = [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; };
  for (size_t at = hint.find(kLimit); at != std::string::npos; at = hint.find(kLimit, at + 1)) {
    const size_t name_at = at + kLimit.size();
    const size_t end = static_cast<size_t>(
        std::ranges::find_if_not(hint.begin() + static_cast<ptrdiff_t>(name_at), hint.end(), is_of_name) -
        hint.begin());
    const std::string_view rest = std::string_view(hint).substr(end);
    const size_t opens = rest.starts_with(" (--") ? 2 : rest.starts_with(", --") ? 2 : 0;
    const size_t closes = rest.find(')');
    if (opens == 0 || closes == std::string_view::npos) continue;
    const std::string_view flag = rest.substr(opens, closes - opens);
    const size_t space = flag.find(' ');
    std::string instead = " of the sandbox's policy";
    if (space != std::string_view::npos)
      instead += " (\"limits\": {\"" + hint.substr(name_at, end - name_at) +
                 "\": " + json_amount(flag.substr(space + 1)) + "}, beside what it grants)";
    hint.replace(end, closes + (rest.starts_with(" (") ? 1 : 0), instead);
  }
  return hint;
}

// Replaces "can write python = ["rich"] under [packages] of the policy": packages are chosen when a sandbox
// is created.
std::string with_packages(std::string hint) {
  constexpr std::string_view kWrite = "can write python = [", kUnder = "] under [packages] of the policy";
  const size_t at = hint.find(kWrite);
  const size_t end = at == std::string::npos ? at : hint.find(kUnder, at);
  if (end == std::string::npos) return hint;
  const size_t list = at + kWrite.size();
  return hint.substr(0, at) + "can make the sandbox with \"packages\": [" + hint.substr(list, end - list) +
         "]" + hint.substr(end + kUnder.size());
}

}  // namespace

std::string client_hint(std::string hint) {
  constexpr std::string_view kAllowed = "It would be allowed by --allow ",
                             kPlaced = "Grant the directory at a place";
  if (const size_t at = hint.find(kPlaced); at != std::string::npos)
    return hint.substr(0, at) + instead_of("fs:");
  const size_t at = hint.find(kAllowed);
  if (at == std::string::npos) return with_packages(with_limit_of_policy(std::move(hint)));
  if (at > 0 && hint.find("fs:write:HOST_DIRECTORY:", at) != std::string::npos)
    return hint.substr(0, at - 1);  // the program writes into its own directories
  const std::string instead = instead_of(without_quotes(std::string_view(hint).substr(at + kAllowed.size())));
  return instead.empty() ? hint : hint.substr(0, at) + instead;
}

}  // namespace membrane::service
