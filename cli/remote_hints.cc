#include "cli/remote_hints.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "base/text.h"
#include "cli/duration.h"
#include "policy/policy.h"

namespace membrane::cli {
namespace {

struct Phrase {
  std::string_view rest, command;
};

// ID is replaced by the sandbox's id.
constexpr Phrase kPhrases[] = {
    {"The list of files says what there is: files.list() of the clients, GET …/files/list.", ""},
    {"GET /v1/templates lists them.", "membrane templates lists them."},
    {"GET /v1/tokens lists them.", "membrane tokens lists them."},
    {"Use one that has it; POST /v1/tokens makes them.",
     "Use one that has it; membrane tokens create makes them."},
    {"GET /v1/snapshots lists them.", "membrane snapshots lists them."},
    {"DELETE /v1/templates/", "membrane templates rm "},
    {"GET …/contexts lists them.", "membrane contexts ID lists them."},
    {"GET …/policy says", "membrane info ID --policy says"},
    {", or GET …/approvals, lists", " lists"},
    {"(membrane cp, PUT …/files)", "(membrane cp FILE ID:/tmp/)"},
    {"(PUT …/files)", "(membrane cp FILE ID:/tmp/)"},
    {"Over HTTP nobody is granted files of the machine", "A service grants nobody files of its machine"},
    {"more time: timeout_ms; timeout of the clients; --timeout of membrane exec.", "more time: --timeout."},
    {"with \"context\" left out", "without --context"},
    {"Begin it with \"open_stdin\": true.", "Begin it with membrane exec -i."},
    {"Create one with \"seal\": true:", "Create one with membrane create --seal:"},
};

// Members of requests, and the corresponding options.
constexpr Phrase kMembers[] = {{"ttl_s", "--ttl"},
                               {"idle_timeout_s", "--idle-timeout"},
                               {"timeout_ms", "--timeout"},
                               {"labels", "--label"},
                               {"metadata", "--metadata"},
                               {"env", "--env"},
                               {"packages", "--with"},
                               {"template", "--template"},
                               {"snapshot", "--snapshot"},
                               {"context", "--context"},
                               {"policy", "--policy"},
                               {"seal", "--seal"},
                               {"count", "-n"},
                               {"stdin", "--input"},
                               {"name", "NAME"}};

bool is_of_name(char c) { return (c >= 'a' && c <= 'z') || c == '_'; }

void replace_all(std::string& text, std::string_view what, std::string_view by) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
}

std::string flag_of_limit(std::string_view name) {
  std::string flag = "--" + std::string(name);
  std::ranges::replace(flag, '_', '-');
  return flag;
}

// The option for "ttl_s", for "labels[2]", for "policy.limits.memory".
std::optional<std::string> option_of(std::string_view member) {
  constexpr std::string_view kLimits = "policy.limits.";
  if (member.starts_with(kLimits)) return flag_of_limit(member.substr(kLimits.size()));
  const std::string_view name = member.substr(0, member.find_first_of(".["));
  const auto* const found = std::ranges::find(kMembers, name, &Phrase::rest);
  if (found == std::end(kMembers)) return std::nullopt;
  return std::string(found->command);
}

// --with a --with b, from the inside of ["a", "b"].
std::string each_with(const std::string& option, std::string_view list) {
  std::string out;
  while (true) {
    const size_t opens = list.find('"');
    const size_t closes = opens == std::string_view::npos ? opens : list.find('"', opens + 1);
    if (closes == std::string_view::npos) return out;
    out += (out.empty() ? "" : " ") + option + " " + std::string(list.substr(opens + 1, closes - opens - 1));
    list.remove_prefix(closes + 1);
  }
}

// "labels" becomes --label, "context": "ctx1" becomes --context ctx1, and "packages": ["a"] becomes --with a.
std::string with_options(const std::string& text) {
  std::string out;
  size_t at = 0;
  for (;;) {
    const size_t opens = text.find('"', at);
    const size_t closes = opens == std::string::npos ? opens : text.find('"', opens + 1);
    if (closes == std::string::npos) return out + text.substr(at);
    const auto option = option_of(std::string_view(text).substr(opens + 1, closes - opens - 1));
    if (!option) {
      const bool is_word = std::all_of(text.begin() + static_cast<ptrdiff_t>(opens) + 1,
                                       text.begin() + static_cast<ptrdiff_t>(closes), is_of_name);
      const size_t next = is_word ? closes + 1 : opens + 1;
      out += text.substr(at, next - at);
      at = next;
      continue;
    }
    out += text.substr(at, opens - at);
    at = closes + 1;
    constexpr std::string_view kValue = ": \"", kList = ": [";
    const bool is_value = text.compare(at, kValue.size(), kValue) == 0;
    const bool is_list = text.compare(at, kList.size(), kList) == 0;
    const size_t end = is_value  ? text.find('"', at + kValue.size())
                       : is_list ? text.find(']', at + kList.size())
                                 : std::string::npos;
    if (end == std::string::npos) {
      out += *option;
      continue;
    }
    static_assert(kValue.size() == kList.size());
    const std::string value = text.substr(at + kValue.size(), end - at - kValue.size());
    out += is_list ? each_with(*option, value) : *option + " " + value;
    at = end + 1;
  }
}

// `"ttl_s" must be at most 2592000` becomes `"ttl_s" must be at most 30d`, which --ttl takes.
std::string with_durations(std::string text) {
  constexpr std::string_view kMost = "\" must be at most ", kLeast = "\" must be at least ";
  for (const auto& [name, unit_ms] : {std::pair<std::string_view, uint64_t>("\"ttl_s", 1000),
                                      std::pair<std::string_view, uint64_t>("\"idle_timeout_s", 1000),
                                      std::pair<std::string_view, uint64_t>("\"timeout_ms", 1)})
    for (const std::string_view bound : {kMost, kLeast}) {
      const std::string words = std::string(name) + std::string(bound);
      const size_t at = text.find(words);
      if (at == std::string::npos) continue;
      const size_t begin = at + words.size(),
                   end = std::min(text.find_first_not_of("0123456789", begin), text.size());
      uint64_t amount = 0;
      constexpr size_t kMostDigits = 15;  // so that it fits in ms
      if (begin == end || end - begin > kMostDigits) continue;
      std::from_chars(text.data() + begin, text.data() + end, amount);
      text.replace(begin, end - begin, duration_text(amount * unit_ms));
    }
  return text;
}

// Removes "GET /openapi.json describes exec.", which is no help here.
std::string without_description(std::string text) {
  constexpr std::string_view kDescribes = "GET /openapi.json describes ";
  const size_t at = text.find(kDescribes);
  if (at == std::string::npos) return text;
  const size_t end = std::min(text.find('.', at + kDescribes.size()), text.size() - 1);
  text.erase(at, end + 1 - at);
  return std::string(trimmed(text));
}

// "limits.fuel of the sandbox's policy ("limits": {"fuel": 400}, beside what it grants)" becomes "limits.fuel: membrane
// update ID --fuel 400".
std::string with_update(std::string text) {
  constexpr std::string_view kLimit = "limits.", kOf = " of the sandbox's policy",
                             kMember = " (\"limits\": {\"";
  for (size_t at = text.find(kLimit); at != std::string::npos; at = text.find(kLimit, at + 1)) {
    size_t end = at + kLimit.size();
    while (end < text.size() && is_of_name(text[end])) ++end;
    if (text.compare(end, kOf.size(), kOf) != 0) continue;
    const std::string name = text.substr(at + kLimit.size(), end - at - kLimit.size());
    size_t after = end + kOf.size();
    std::string value = name == "fuel" || name == "calls" ? "N" : name == "wall" ? "TIME" : "SIZE";
    const std::string member = std::string(kMember) + name + "\": ";
    const size_t closes = text.find('}', after);
    if (text.compare(after, member.size(), member) == 0 && closes != std::string::npos) {
      value = text.substr(after + member.size(), closes - after - member.size());
      std::erase(value, '"');
      after = std::min(text.find(')', closes), text.size() - 1) + 1;
    }
    text.replace(end, after - end, ": membrane update ID " + flag_of_limit(name) + " " + value);
  }
  return text;
}

// The flag for a member of a policy that grants the same; "" for another member.
std::string grant_of(const std::string& member) {
  const auto json = read_json("{" + member + "}", "the grant");
  if (!json || !json->is_object() || json->size() != 1) return "";
  const std::string name = json->begin().key();
  if (name != "http")
    return name == "kv" || name == "ai" || name == "ask" || name == "time" || name == "random" ? name : "";
  const auto& grants = json->begin().value();
  if (!grants.is_array() || grants.size() != 1 || !grants[0].is_object()) return "";
  const auto methods = grants[0].find("methods"), url = grants[0].find("url");
  if (methods == grants[0].end() || !methods->is_array() || url == grants[0].end() || !url->is_string())
    return "";
  std::string words = name;
  for (const auto& method : *methods)
    if (method.is_string()) words += (words.size() == name.size() ? ":" : ",") + method.get<std::string>();
  return words + ":" + url->get<std::string>();
}

std::string with_flag(std::string text) {
  constexpr std::string_view kBy = "It would be allowed by ", kIn = " in the sandbox's policy.";
  const size_t at = text.find(kBy), end = text.find(kIn, at == std::string::npos ? at : at + kBy.size());
  if (end == std::string::npos) return text;
  const std::string grant = grant_of(text.substr(at + kBy.size(), end - at - kBy.size()));
  if (grant.empty()) return text;
  return text.replace(at + kBy.size(), end + kIn.size() - at - kBy.size(),
                      "membrane update ID " + policy::allow_flag(grant) +
                          ". --allow replaces all grants of the sandbox: repeat those that it should keep.");
}

// "Resume it: membrane resume sbx1, or POST /v1/sandboxes/sbx1/resume.", without the request.
std::string without_resume_request(std::string text) {
  constexpr std::string_view kRequest = ", or POST /v1/sandboxes/", kEnd = "/resume.";
  const size_t at = text.find(kRequest),
               end = text.find(kEnd, at == std::string::npos ? at : at + kRequest.size());
  return end == std::string::npos ? text : text.replace(at, end + kEnd.size() - at, ".");
}

}  // namespace

std::string in_words_of_command(std::string text, const std::string& sandbox) {
  text = without_resume_request(std::move(text));
  for (const auto& [rest, command] : kPhrases) replace_all(text, rest, command);
  text = with_options(with_durations(without_description(with_update(with_flag(std::move(text))))));
  if (!sandbox.empty()) {
    replace_all(text, " ID ", " " + sandbox + " ");
    replace_all(text, " ID:/", " " + sandbox + ":/");
  }
  return text;
}

}  // namespace membrane::cli
