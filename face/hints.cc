#include "face/hints.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace membrane::face {
namespace {

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

// A word of the command line as policy::allow_flag() writes it, at the beginning of `text`: what it stands for, and how long it is.
std::pair<std::string, size_t> word_at(std::string_view text) {
  constexpr std::string_view kQuote = "'\\''";
  if (!text.starts_with('\'')) {
    std::string_view word = text.substr(0, text.find_first_of(" \n)"));
    if (word.ends_with(":.") || word.ends_with(":..")) return {std::string(word), word.size()};  // a path
    while (!word.empty() && std::string_view(".,;:").contains(word.back())) word.remove_suffix(1);
    return {std::string(word), word.size()};
  }
  std::string word;
  for (size_t at = 1; at < text.size();) {
    if (text.substr(at).starts_with(kQuote)) {
      word += '\'';
      at += kQuote.size();
    } else if (text[at] == '\'') {
      return {std::move(word), at + 1};
    } else {
      word += text[at++];
    }
  }
  return {};
}

std::string with_grants(std::string_view hint) {
  constexpr std::string_view kFlag = "--allow ";
  std::string out;
  for (size_t at = hint.find(kFlag); at != std::string_view::npos; at = hint.find(kFlag)) {
    const auto [word, size] = word_at(hint.substr(at + kFlag.size()));
    out += hint.substr(0, at);
    out += word.empty() ? std::string(kFlag) : "Policy::allow(" + quoted(word) + ")";
    hint.remove_prefix(at + kFlag.size() + size);
  }
  return out += hint;
}

// "limits.fuel (--fuel 400)", "limits.wall (--wall)", "(limits.memory, --memory)".
std::string with_limits(std::string_view hint) {
  constexpr std::string_view kLimit = "limits.";
  std::string out;
  for (size_t at = hint.find(kLimit); at != std::string_view::npos; at = hint.find(kLimit)) {
    const size_t end =
        std::min(hint.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", at + kLimit.size()), hint.size());
    const std::string_view name = hint.substr(at + kLimit.size(), end - at - kLimit.size());
    out += hint.substr(0, end);
    hint.remove_prefix(end);
    const size_t closes = hint.find(')');
    if (closes == std::string_view::npos) continue;
    if (hint.starts_with(", --")) {
      hint.remove_prefix(closes);
    } else if (hint.starts_with(" (--")) {
      const std::string_view flag = hint.substr(0, closes);
      const size_t space = flag.find(' ', 1);
      const std::string_view value = space == std::string_view::npos ? "…" : flag.substr(space + 1);
      out += " (Policy::limit(" + quoted(name) + ", " + quoted(value) + "))";
      hint.remove_prefix(closes + 1);
    }
  }
  return out += hint;
}

}  // namespace

std::string embedder_hint(std::string hint) {
  constexpr std::string_view kGoOn = "(:go)";
  if (!hint.contains("--") && !hint.contains(kGoOn)) return hint;
  hint = with_limits(with_grants(hint));
  if (const size_t at = hint.find(kGoOn); at != std::string::npos)
    hint.replace(at, kGoOn.size(), "(resume_paused(), or give it up: abandon())");
  return hint;
}

void say_to_embedder(sandbox::Report& report) {
  for (sandbox::ReportError& error : report.errors) {
    error.hint = embedder_hint(std::move(error.hint));
    error.message = with_limits(error.message);
  }
  for (sandbox::HostCallRecord& call : report.host_calls) {
    call.grant = embedder_hint(std::move(call.grant));
    call.reason = with_limits(call.reason);
  }
}

}  // namespace membrane::face
