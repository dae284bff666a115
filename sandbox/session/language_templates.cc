#include "sandbox/session/language_templates.h"

#include "base/user_directory.h"
#include "lang/package.h"
#include "sandbox/session/warm_lists.h"

namespace membrane::sandbox {

std::string LanguageTemplates::default_cache_directory() {
  return user_path(UserDirectory::kCache, "templates");
}

Result<std::shared_ptr<const Template>> LanguageTemplates::open(lang::Package package,
                                                                const Modules* modules) {
  std::string key = package.name;
  if (modules != nullptr)
    for (const std::string& module : *modules) key += " " + module;
  const std::lock_guard lock(mutex_);
  if (const auto found = templates_.find(key); found != templates_.end()) return found->second;
  MEMBRANE_TRY(check_cache(package));
  Modules list = modules == nullptr ? Modules() : *modules;
  MEMBRANE_ASSIGN(auto opened, Template::open(std::move(package), options_, std::move(list)));
  templates_.emplace(std::move(key), opened);
  return opened;
}

Status LanguageTemplates::check_cache(const lang::Package& package) const {
  if (!options_.cache_directory.empty()) return {};
  return fail(ErrorCode::kInvalidArgument, "there is no directory for the warm image of " + package.name,
              "Set HOME or XDG_CACHE_HOME.");
}

static const std::vector<std::string>* warm_list_for(const lang::Package& package, std::string_view program) {
  return package.warm.empty() ? nullptr : best_warm_list(package.warm, imported_packages(program));
}

Result<std::shared_ptr<const Template>> LanguageTemplates::open(std::string_view name,
                                                                std::string_view program) {
  MEMBRANE_ASSIGN(const lang::Package package, lang::find_package(name));
  return open(package, warm_list_for(package, program));
}

Result<LanguageTemplates::Located> LanguageTemplates::locate(std::string_view name,
                                                             std::string_view program) const {
  MEMBRANE_ASSIGN(lang::Package package, lang::find_package(name));
  MEMBRANE_TRY(check_cache(package));
  const Modules* const modules = warm_list_for(package, program);
  TemplateSpec spec{package.directory,
                    modules == nullptr ? Modules() : *modules,
                    options_.cache_directory,
                    options_.tier,
                    {},
                    {},
                    {}};
  return Located{std::move(package), std::move(spec)};
}

Result<std::shared_ptr<const Template>> LanguageTemplates::open_for_session(std::string_view name) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = for_sessions_.find(name); found != for_sessions_.end()) return found->second;
  }
  MEMBRANE_ASSIGN(const lang::Package package, lang::find_package(name));
  MEMBRANE_ASSIGN(auto opened, open(package, largest_warm_list(package.warm)));
  const std::lock_guard lock(mutex_);
  return for_sessions_.emplace(name, std::move(opened)).first->second;
}

}  // namespace membrane::sandbox
