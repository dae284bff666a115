#include "sandbox/languages.h"

#include <algorithm>

#include "base/environment.h"
#include "lang/package.h"

namespace membrane::sandbox {

std::string Languages::default_cache_directory() {
  // By its specification, a path that is not absolute is not looked at.
  if (const std::string cache = environment_variable("XDG_CACHE_HOME"); cache.starts_with('/'))
    return cache + "/membrane/templates";
  const std::string home = environment_variable("HOME");
  return home.empty() ? "" : home + "/.cache/membrane/templates";
}

Result<std::shared_ptr<const Template>> Languages::open(std::string_view name) {
  const std::lock_guard lock(mutex_);
  if (const auto found = templates_.find(name); found != templates_.end()) return found->second;
  MEMBRANE_ASSIGN(lang::Package package, lang::find_package(name));
  if (options_.cache_directory.empty())
    return fail(ErrorCode::kInvalidArgument,
                "there is no directory for the warm image of " + std::string(name),
                "Set HOME or XDG_CACHE_HOME.");
  MEMBRANE_ASSIGN(auto opened, Template::open(std::move(package), options_));
  templates_.emplace(name, opened);
  return opened;
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
