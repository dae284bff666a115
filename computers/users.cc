#include "computers/users.h"

#include <charconv>
#include <optional>
#include <ranges>
#include <vector>

namespace membrane::computers {
namespace {

constexpr uint64_t kMostFileBytes = 4u << 20;  // of /etc/passwd

std::optional<uint32_t> number_of(std::string_view text) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::vector<std::string_view> parts_of(std::string_view line) {
  std::vector<std::string_view> parts;
  for (const auto part : std::views::split(line, ':')) parts.emplace_back(part.begin(), part.end());
  return parts;
}

// The first line whose name, or else whose number, matches.
std::optional<std::vector<std::string_view>> line_of(std::string_view text, std::string_view who,
                                                     size_t least_parts) {
  for (const size_t column : {size_t{0}, size_t{2}})
    for (const auto each : std::views::split(text, '\n')) {
      auto parts = parts_of({each.begin(), each.end()});
      if (parts.size() >= least_parts && parts[column] == who && number_of(parts[2])) return parts;
    }
  return std::nullopt;
}

std::unexpected<Error> unknown(const char* what, std::string_view name, const char* file) {
  return fail(ErrorCode::kInvalidInput,
              "there is no " + std::string(what) + " \"" + std::string(name.substr(0, 100)) + "\" in " + file,
              "Create it first (useradd, groupadd), or use its number.");
}

std::string text_in(const linux::Layer& image, std::initializer_list<std::string_view> names) {
  auto at = image.inode(0);
  for (const std::string_view name : names) {
    const auto number = at && S_ISDIR(at->mode) ? image.find(*at, name) : std::nullopt;
    at = number ? image.inode(*number) : std::nullopt;
  }
  if (!at || !S_ISREG(at->mode) || at->size > kMostFileBytes) return "";
  const auto bytes = image.content(*at);
  return bytes ? std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size()) : "";
}

}  // namespace

Result<User> find_user(std::string_view who, std::string_view passwd, std::string_view group) {
  const size_t colon = who.find(':');
  const std::string_view name = who.substr(0, colon);
  User found;
  const auto line = line_of(passwd, name.empty() ? "root" : name, 4);
  if (line) {
    found.user = *number_of((*line)[2]);
    found.group = number_of((*line)[3]).value_or(0);
    if (line->size() > 5) found.home = (*line)[5];
  } else if (const auto number = number_of(name)) {
    found.user = *number;
  } else if (!name.empty() && name != "root") {
    return unknown("user", name, "/etc/passwd");
  }
  if (colon == who.npos) return found;
  const std::string_view group_name = who.substr(colon + 1);
  if (const auto its_line = line_of(group, group_name, 3)) found.group = *number_of((*its_line)[2]);
  else if (const auto number = number_of(group_name)) found.group = *number;
  else return unknown("group", group_name, "/etc/group");
  return found;
}

Result<User> find_user(std::string_view who, const linux::Layer& image) {
  return find_user(who, text_in(image, {"etc", "passwd"}), text_in(image, {"etc", "group"}));
}

Result<User> find_user(std::string_view who, linux::LiveComputer& computer) {
  return find_user(who, computer.read_file("/etc/passwd", 0, kMostFileBytes).value_or(""),
                   computer.read_file("/etc/group", 0, kMostFileBytes).value_or(""));
}

}  // namespace membrane::computers
