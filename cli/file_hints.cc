#include "cli/file_hints.h"

#include <algorithm>
#include <filesystem>
#include <span>
#include <string_view>

#include "sandbox/run/report_building.h"

namespace membrane::cli {
namespace {

// The first quoted text of a message; "" if none.
std::string first_in_quotes(std::string_view text) {
  const size_t begin = text.find('\'');
  const size_t end = begin == std::string_view::npos ? begin : text.find('\'', begin + 1);
  return end == std::string_view::npos ? "" : std::string(text.substr(begin + 1, end - begin - 1));
}

// Whether the directory contains such a module, as the two languages look for it.
bool is_module_in(const std::filesystem::path& folder, const std::filesystem::path& module, bool is_python) {
  namespace fs = std::filesystem;
  constexpr const char* kOfPython[] = {".py"};
  constexpr const char* kOfJavaScript[] = {"", ".js", ".json", ".mjs", ".cjs", ".ts", ".mts", ".cts"};
  std::error_code failed;
  if (fs::is_directory(folder / module, failed)) return true;
  return std::ranges::any_of(
      is_python ? std::span<const char* const>(kOfPython) : kOfJavaScript,
      [&](const char* ending) { return fs::is_regular_file(folder / (module.string() + ending), failed); });
}

// For a module that the program did not find, and that is next to it.
bool hint_at_module_beside(const std::string& file, const policy::Policy& policy,
                           sandbox::ReportError& error) {
  namespace fs = std::filesystem;
  const bool is_python = error.code == "ModuleNotFoundError";
  const std::string name = is_python ? sandbox::path_in(error.message) : first_in_quotes(error.message);
  if (!is_python && !(error.message.starts_with("Cannot find module '") && name.starts_with("./")))
    return false;
  const fs::path module = fs::path(name).lexically_normal();
  if (module.empty() || module.is_absolute() || *module.begin() == "..") return is_python;
  const fs::path folder = fs::path(file).parent_path();
  const fs::path here = folder.empty() ? fs::path(".") : folder;
  if (is_module_in(here, module, is_python)) {
    error.hint =
        name + " is next to the program, and not granted: --dir " + here.string() + ":/:ro grants it.";
    return true;
  }
  if (!is_python)
    error.hint = policy.fs.empty() ? "" : sandbox::granted_directories(policy, sandbox::HostPaths::kNamed);
  return true;
}

// A path of this machine, without following symbolic links and without a trailing slash.
std::filesystem::path absolute_path(const std::filesystem::path& path) {
  std::error_code failed;
  const std::filesystem::path absolute = std::filesystem::absolute(path, failed).lexically_normal();
  return absolute.has_filename() ? absolute : absolute.parent_path();
}

// Where the program sees a file of this machine: "/data/x.csv" for "data/x.csv". "" if no grant covers it.
std::string seen_at(const policy::Policy& policy, const std::filesystem::path& path) {
  const std::filesystem::path wanted = absolute_path(path);
  for (const policy::FsGrant& grant : policy.fs) {
    const std::filesystem::path rest = wanted.lexically_relative(absolute_path(grant.host));
    if (rest.empty() || *rest.begin() == "..") continue;
    return (rest == "." ? std::filesystem::path(grant.guest) : std::filesystem::path(grant.guest) / rest)
        .string();
  }
  return "";
}

// Of the granted directories that a hint lists.
void name_host_paths(const policy::Policy& policy, std::string& hint) {
  const std::string hidden = sandbox::granted_directories(policy);
  if (const size_t at = hint.find(hidden); at != std::string::npos)
    hint.replace(at, hidden.size(), sandbox::granted_directories(policy, sandbox::HostPaths::kNamed));
}

// For a path below the working directory, or next to the program, that is not granted: the flag that grants
// it, or that it does not exist here either.
std::string hint_at_path_below(const std::filesystem::path& path, const std::filesystem::path& program_file,
                               const policy::Policy& policy, const std::string& hint) {
  namespace fs = std::filesystem;
  std::error_code failed;
  const auto here = [](const fs::path& what, const std::string& grant) {
    return what.string() + " is here, and not granted: " + policy::allow_flag(grant) + " grants it.";
  };
  const fs::path below = path.lexically_normal();
  const fs::path folder = below.has_parent_path() ? below.parent_path() : below;
  if (hint.starts_with(sandbox::kNoDirectory))  // the program writes
    return fs::is_directory(folder, failed)
               ? here(folder, "fs:write:" + folder.string() + ":/" + folder.string())
               : hint;
  if (fs::exists(below, failed)) return here(path, "fs:read:" + folder.string() + ":/" + folder.string());
  const fs::path beside = program_file.parent_path() / below;
  if (program_file.has_parent_path() && fs::exists(beside, failed))
    return path.string() + " is next to the program, and not granted: --dir " +
           program_file.parent_path().string() + ":/:ro grants it.";
  if (failed) return hint;
  return "There is no " + path.string() + " in the current directory, either." +
         (policy.fs.empty() ? "" : " " + sandbox::granted_directories(policy, sandbox::HostPaths::kNamed));
}

}  // namespace

void hint_at_file_here(const std::string& program_file, const policy::Policy& policy, HintsFor reader,
                       sandbox::Report& report) {
  namespace fs = std::filesystem;
  if (report.errors.empty()) return;
  sandbox::ReportError& error = report.errors.front();
  const fs::path path(sandbox::path_in(error.message));
  if (path.empty()) return;
  const bool is_person = reader == HintsFor::kPerson;
  if (is_person) name_host_paths(policy, error.hint);
  if (is_person && !program_file.empty() && hint_at_module_beside(program_file, policy, error)) return;
  if (error.code != "FileNotFoundError" && !error.message.starts_with("ENOENT: ")) return;
  std::error_code failed;
  const std::string seen = seen_at(policy, path);
  if (!seen.empty() && seen != ("/" / path).lexically_normal() &&
      fs::exists(fs::symlink_status(path, failed))) {
    error.hint = path.string() + " is granted, and the program sees it as " + seen + ": open that.";
    return;
  }
  if (!is_person || path.is_absolute() || *path.lexically_normal().begin() == "..") return;
  error.hint = hint_at_path_below(path, program_file, policy, error.hint);
}

}  // namespace membrane::cli
