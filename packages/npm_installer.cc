// Packages of JavaScript: the user's npm, without the packages' scripts.

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/json.h"
#include "packages/installer.h"

namespace membrane::packages {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr size_t kMostLockBytes = 16u << 20;
constexpr std::string_view kModules = "node_modules";

// "node_modules/a/node_modules/@b/c" is "@b/c".
std::string_view name_of_place(std::string_view place) {
  const size_t at = place.rfind("node_modules/");
  return at == std::string_view::npos ? std::string_view()
                                      : place.substr(at + std::string_view("node_modules/").size());
}

std::string text_at(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}
bool flag_at(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && *found == true;
}

// Whether it comes from the registry, as a file with a digest. All else npm would get by other ways: a repository, a
// directory of this machine. One that is in the file of another has no digest of its own.
bool is_of_registry(const Json& package) {
  const std::string resolved = text_at(package, "resolved");
  return !flag_at(package, "link") &&
         (text_at(package, "integrity").starts_with("sha") || flag_at(package, "inBundle")) &&
         (resolved.empty() || resolved.starts_with("https://") || resolved.starts_with("http://"));
}

Result<std::vector<LockedPackage>> packages_of(const Json& lock) {
  const auto packages = lock.find("packages");
  if (packages == lock.end() || !packages->is_object())
    return fail(ErrorCode::kInvalidInput, "npm's lock has no packages", "Use npm 7 or newer.");
  std::vector<LockedPackage> all;
  for (const auto& [place, package] : packages->items()) {
    if (place.empty()) continue;  // our own
    const std::string name(name_of_place(place));
    if (!package.is_object() || !place.starts_with("node_modules/") ||
        !policy::parse_package(policy::Registry::kJavaScript, name))
      return fail(ErrorCode::kInvalidInput, "the package at " + place + " does not come from the registry",
                  "Ask for other packages.");
    if (!is_of_registry(package))
      return fail(ErrorCode::kUnsupported, "the package " + name + " does not come from the registry",
                  "Ask for a version of it whose files are in the registry.");
    all.push_back({name, text_at(package, "version"), {}, {}});
  }
  return all;
}

// Links to programs, which nothing can start, and code of the machine.
Status clean_tree(const fs::path& root) {
  std::vector<fs::path> programs;
  std::error_code error;
  for (fs::recursive_directory_iterator at(root, error), end; !error && at != end; at.increment(error)) {
    const fs::path& path = at->path();
    if (path.filename() == ".bin" && path.parent_path().filename() == kModules) {
      programs.push_back(path);
      at.disable_recursion_pending();
    } else if (path.extension() == ".node" || path.filename() == "binding.gyp") {
      const std::string place = path.lexically_relative(root.parent_path()).string();
      const std::string_view inside = name_of_place(place);
      size_t slash = inside.find('/');
      if (inside.starts_with('@') && slash != std::string_view::npos) slash = inside.find('/', slash + 1);
      return fail(ErrorCode::kUnsupported,
                  "the package " + std::string(inside.substr(0, slash)) + " is native code (" + place +
                      "), which does not run here",
                  "Ask for a package that is JavaScript.");
    }
  }
  for (const fs::path& path : programs) fs::remove_all(path, error);
  if (error)
    return fail(ErrorCode::kUnavailable, "cannot read what npm brought: " + error.message(), "Try again.");
  return {};
}

class NpmInstaller final : public Installer {
 public:
  explicit NpmInstaller(const Options& options) : options_(options) {}

  [[nodiscard]] policy::Registry registry() const override { return policy::Registry::kJavaScript; }
  [[nodiscard]] std::string_view guest_directory() const override { return kNodeModules; }
  [[nodiscard]] std::string made_for() const override { return "npm"; }
  [[nodiscard]] std::optional<LockedLanguage>& part_of(Lock& lock) const override { return lock.javascript; }
  [[nodiscard]] std::string tree_in(const WorkDirectory& work) const override {
    return work.path() + "/" + std::string(kModules);
  }

  Result<LockedLanguage> resolve(const WorkDirectory& work, const std::vector<policy::PackageName>& names,
                                 const std::vector<LockedPackage>& pins) const override {
    MEMBRANE_TRY(write_manifest(work, names, pins));
    MEMBRANE_TRY(run(work, {"install", "--package-lock-only"}));
    MEMBRANE_ASSIGN(LockedLanguage locked, read_lock_of(work));
    for (const policy::PackageName& name : names) locked.asked.push_back(name.text());
    MEMBRANE_TRY(fetch_there(work));
    return locked;
  }

  Status fetch(const WorkDirectory& work, const LockedLanguage& locked) const override {
    MEMBRANE_ASSIGN(const Json lock,
                    read_ordered_json(locked.package_lock, "the lock of npm", {.bytes = kMostLockBytes}));
    MEMBRANE_TRY(packages_of(lock));
    MEMBRANE_ASSIGN(const auto names, policy::parse_packages(registry(), locked.asked));
    MEMBRANE_TRY(write_manifest(work, names, {}));
    MEMBRANE_TRY(work.write("package-lock.json", locked.package_lock));
    return fetch_there(work);
  }

 private:
  static Status write_manifest(const WorkDirectory& work, const std::vector<policy::PackageName>& names,
                               const std::vector<LockedPackage>& pins) {
    Json dependencies = Json::object();
    for (const policy::PackageName& name : names)
      dependencies[name.name] = name.version.empty() ? "*" : name.version;
    for (const LockedPackage& pin : pins)
      if (dependencies.contains(pin.name) && dependencies[pin.name] == "*")
        dependencies[pin.name] = pin.version;
    return work.write("package.json", json_text(Json{{"name", "membrane-packages"},
                                                     {"version", "1.0.0"},
                                                     {"private", true},
                                                     {"dependencies", dependencies}}));
  }

  Result<LockedLanguage> read_lock_of(const WorkDirectory& work) const {
    LockedLanguage locked;
    locked.made_for = made_for();
    MEMBRANE_ASSIGN(const std::string text, work.read("package-lock.json", kMostLockBytes));
    MEMBRANE_ASSIGN(const Json lock, read_ordered_json(text, "the lock of npm", {.bytes = kMostLockBytes}));
    MEMBRANE_ASSIGN(locked.packages, packages_of(lock));
    locked.package_lock = json_text(lock);
    return locked;
  }

  Status fetch_there(const WorkDirectory& work) const {
    MEMBRANE_TRY(run(work, {"ci"}));
    std::error_code error;
    fs::create_directory(tree_in(work), error);  // of nothing, npm makes none
    return clean_tree(tree_in(work));
  }

  Status run(const WorkDirectory& work, std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "npm");
    for (const char* const option :
         {"--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--omit=optional",
          "--omit=dev", "--omit-lockfile-registry-resolved", "--loglevel=error", "--no-progress"})
      arguments.emplace_back(option);
    if (options_.on_progress) options_.on_progress("bringing packages by npm");
    const auto end =
        run_installer({.arguments = std::move(arguments), .directory = work.path()}, work, options_);
    if (!end && end.error().code == ErrorCode::kNotFound)
      return fail(ErrorCode::kNotFound, "packages for JavaScript are brought by npm, which is not there",
                  "Install it: apt install npm.");
    if (!end) return std::unexpected(end.error());
    if (end->exit_code == 0) return {};
    return fail(ErrorCode::kUnavailable, "npm brings no such packages: " + end->output,
                "Check the names and versions. npm uses your own configuration (registry, proxy, "
                "certificates): look whether "
                "npm install works by itself.");
  }

  const Options& options_;
};

}  // namespace

std::unique_ptr<Installer> make_npm_installer(const Options& options) {
  return std::make_unique<NpmInstaller>(options);
}

}  // namespace membrane::packages
