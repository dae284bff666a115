#include "policy/directory_flag.h"

#include <ranges>
#include <string>
#include <utility>

#include "base/utf8.h"
#include "policy/add_grant.h"

namespace membrane::policy {
namespace {

// "/data/a" for "./data//a/", "/" for "."; "" for a path that leads out of the working directory.
std::string guest_of(std::string_view path) {
  std::string guest;
  for (const auto part : std::views::split(path, '/')) {
    const std::string_view name(part.begin(), part.end());
    if (name == "..") return "";
    if (!name.empty() && name != ".") guest.append("/").append(name);
  }
  return guest.empty() ? "/" : guest;
}

std::unexpected<Error> refuse(std::string_view flag, const std::string& why, std::string hint) {
  return fail(ErrorCode::kInvalidArgument, "--dir " + std::string(flag) + ": " + why, std::move(hint));
}

Result<FsGrant> grant_of(std::string_view flag) {
  FsGrant grant;
  std::string_view rest = flag;
  grant.mode = rest.ends_with(":ro") ? FsMode::kRead : FsMode::kWrite;
  if (rest.ends_with(":ro") || rest.ends_with(":rw")) rest.remove_suffix(3);
  size_t colon = rest.find("::");
  const size_t width = colon == std::string_view::npos ? 1 : 2;
  if (width == 1) colon = rest.rfind(':');
  const bool has_guest = colon != std::string_view::npos;
  grant.host = rest.substr(0, colon);
  if (grant.host.empty()) return refuse(flag, "the directory is missing.", "write --dir ./data");
  grant.guest = guest_of(has_guest ? rest.substr(colon + width) : std::string_view(grant.host));
  if (grant.guest.empty())
    return refuse(flag, "a program's paths do not lead out of /.",
                  "say where the program sees it: --dir " + grant.host + ":/work");
  return grant;
}

}  // namespace

Status allow_directory(Policy& policy, std::string_view flag) {
  if (flag.find('\0') != std::string_view::npos || !is_utf8(flag))
    return fail(ErrorCode::kInvalidArgument, "--dir: the flag is not text.",
                "write it in UTF-8, without NUL");
  Policy changed = policy;
  MEMBRANE_ASSIGN(FsGrant grant, grant_of(flag));
  add_fs(changed, std::move(grant));
  if (auto valid = validate(changed); !valid) return refuse(flag, valid.error().message, valid.error().hint);
  policy = std::move(changed);
  return {};
}

}  // namespace membrane::policy
