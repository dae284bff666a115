#include "sandbox/languages.h"

#include <algorithm>

#include "base/environment.h"
#include "lang/package.h"
#include "sandbox/warm_lists.h"

namespace membrane::sandbox {

std::string Languages::default_cache_directory() {
  // By its specification, a path that is not absolute is not looked at.
  if (const std::string cache = environment_variable("XDG_CACHE_HOME"); cache.starts_with('/'))
    return cache + "/membrane/templates";
  const std::string home = environment_variable("HOME");
  return home.empty() ? "" : home + "/.cache/membrane/templates";
}

Result<std::shared_ptr<const Template>> Languages::open(lang::Package package, const Modules* modules) {
  std::string key = package.name;
  if (modules != nullptr)
    for (const std::string& module : *modules) key += " " + module;
  const std::lock_guard lock(mutex_);
  if (const auto found = templates_.find(key); found != templates_.end()) return found->second;
  if (options_.cache_directory.empty())
    return fail(ErrorCode::kInvalidArgument, "there is no directory for the warm image of " + package.name,
                "Set HOME or XDG_CACHE_HOME.");
  Modules wanted = modules == nullptr ? Modules() : *modules;
  MEMBRANE_ASSIGN(auto opened, Template::open(std::move(package), options_, std::move(wanted)));
  templates_.emplace(std::move(key), opened);
  return opened;
}

Result<std::shared_ptr<const Template>> Languages::open(std::string_view name, std::string_view program) {
  MEMBRANE_ASSIGN(const lang::Package package, lang::find_package(name));
  return open(package,
              package.warm.empty() ? nullptr : best_warm_list(package.warm, imported_packages(program)));
}

Result<std::shared_ptr<const Template>> Languages::open_for_session(std::string_view name) {
  MEMBRANE_ASSIGN(const lang::Package package, lang::find_package(name));
  return open(package, largest_warm_list(package.warm));
}

std::string language_of(std::string_view file_name, std::string_view source) {
  if (source.starts_with(std::string_view("\0asm", 4))) return "wasm";
  const auto ends_with = [&](std::string_view extension) { return file_name.ends_with(extension); };
  if (ends_with(".wat") || ends_with(".wast")) return "wat";
  if (ends_with(".py")) return "python";
  for (const std::string_view extension : {".js", ".mjs", ".cjs", ".ts", ".mts", ".cts"})
    if (ends_with(extension)) return "js";
  if (file_name.find('.') != std::string_view::npos)
    for (const lang::Package& package : lang::installed_packages())
      if (std::ranges::any_of(package.extensions, ends_with)) return package.name;
  const size_t first = source.find_first_not_of(" \t\r\n");
  const bool is_empty = first == std::string_view::npos;
  if (!is_empty && (source[first] == '(' || source.substr(first).starts_with(";;"))) return "wat";
  return file_name.empty() ? "python" : "wat";
}

}  // namespace membrane::sandbox
