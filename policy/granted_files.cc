#include "policy/granted_files.h"

#include <filesystem>
#include <string>

namespace membrane::policy {

Status check_granted_files(const Policy& policy) {
  const auto check = [](const std::string& what, const std::string& path) -> Status {
    std::error_code error;
    if (std::filesystem::exists(path, error)) return {};
    const std::string why = error ? " cannot be accessed: " + error.message() : " does not exist";
    const std::string from = std::filesystem::path(path).is_absolute()
                                 ? ""
                                 : "; it is looked for in " + std::filesystem::current_path(error).string();
    return fail(ErrorCode::kNotFound, path + ", granted as " + what + "," + why,
                "Create it, or correct the path of the grant" + from + ".");
  };
  for (const FsGrant& grant : policy.fs) MEMBRANE_TRY(check(grant.guest, grant.host));
  for (const SqlGrant& grant : policy.sql) MEMBRANE_TRY(check("database " + grant.name, grant.path));
  return {};
}

}  // namespace membrane::policy
