// Packages for JavaScript: the user's npm, without the packages' scripts.

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/base64.h"
#include "base/json.h"
#include "packages/installer.h"

namespace membrane::packages {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr size_t kMostLockBytes = 16u << 20;
constexpr std::string_view kModules = "node_modules";
constexpr const char* kManifestName = "membrane-packages";

// "node_modules/a/node_modules/@b/c" is "@b/c".
std::string_view name_of_place(std::string_view place) {
  const size_t at = place.rfind("node_modules/");
  return at == std::string_view::npos ? std::string_view()
                                      : place.substr(at + std::string_view("node_modules/").size());
}

bool is_name(std::string_view name) {
  return policy::parse_package(policy::Registry::kJavaScript, std::string(name)).has_value();
}

// "node_modules/NAME", and below it "/node_modules/NAME" again.
bool is_place(std::string_view place) {
  constexpr std::string_view kBegin = "node_modules/", kBetween = "/node_modules/";
  if (!place.starts_with(kBegin)) return false;
  place.remove_prefix(kBegin.size());
  for (;;) {
    const size_t end = place.find(kBetween);
    if (!is_name(place.substr(0, end))) return false;
    if (end == std::string_view::npos) return true;
    place.remove_prefix(end + kBetween.size());
  }
}

std::string text_at(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// A digest of an algorithm that npm checks: npm ignores digests of algorithms that it does not know.
bool is_digest(std::string_view text) {
  constexpr std::pair<std::string_view, size_t> kDigests[] = {
      {"sha512-", 64}, {"sha384-", 48}, {"sha1-", 20}};
  return std::ranges::any_of(kDigests, [&](const auto& digest) {
    if (!text.starts_with(digest.first)) return false;
    const auto bytes = base64_decode(text.substr(digest.first.size()));
    return bytes && bytes->size() == digest.second;
  });
}

// A range of versions, or another name with one: not a repository, a file or a URL.
bool is_range(std::string_view text) {
  constexpr std::string_view kAlias = "npm:";
  if (text.starts_with(kAlias)) {
    const size_t at = text.find('@', kAlias.size() + 1);
    if (!is_name(text.substr(kAlias.size(), at == std::string_view::npos ? at : at - kAlias.size())))
      return false;
    text = at == std::string_view::npos ? std::string_view() : text.substr(at + 1);
  }
  return text.find_first_of(":/\\") == std::string_view::npos;
}

// What npm needs to know about a package: its name, its digest, and its dependencies. npm fetches a package with
// nothing else by name and version from the registry. The rest of its lock is left out: another source, a directory
// of this machine, bundled packages. Nothing if the result would be a different package.
std::optional<Json> from_registry(const Json& package, const std::string& name) {
  const std::string version = text_at(package, "version"), digest = text_at(package, "integrity");
  const std::string alias = text_at(package, "name");
  const auto is_set = [&](const char* flag) { return package.contains(flag) && package[flag] != false; };
  if (!policy::parse_package(policy::Registry::kJavaScript,
                             (alias.empty() ? name : alias) + "==" + version) ||
      !is_digest(digest) || is_set("link") || is_set("inBundle") || is_set("hasShrinkwrap"))
    return std::nullopt;
  Json clean = {{"version", version}, {"integrity", digest}};
  if (!alias.empty()) clean["name"] = alias;
  for (const char* const field : {"dependencies", "peerDependencies"}) {
    const auto found = package.find(field);
    if (found == package.end()) continue;
    if (!found->is_object()) return std::nullopt;
    for (const auto& [dependency, range] : found->items()) {
      if (!is_name(dependency) || !range.is_string() || !is_range(range.get_ref<const std::string&>()))
        return std::nullopt;
      clean[field][dependency] = range;
    }
  }
  if (const auto meta = package.find("peerDependenciesMeta"); meta != package.end() && meta->is_object())
    for (const auto& [dependency, about] : meta->items())
      if (is_name(dependency) && about.is_object() && about.contains("optional") && about["optional"] == true)
        clean["peerDependenciesMeta"][dependency] = {{"optional", true}};
  if (is_set("peer")) clean["peer"] = true;
  return clean;
}

struct CleanLock {
  Json lock;
  std::vector<LockedPackage> packages;
};

// The registry part of npm's output, or of a file beside a policy. Errors: kInvalidInput, kUnsupported.
Result<CleanLock> clean_lock(const Json& lock, const Json& dependencies) {
  const auto packages = lock.find("packages");
  if (packages == lock.end() || !packages->is_object())
    return fail(ErrorCode::kInvalidInput, "npm's lock has no packages", "Use npm 7 or newer.");
  CleanLock clean{
      {{"name", kManifestName},
       {"version", "1.0.0"},
       {"lockfileVersion", 3},
       {"requires", true},
       {"packages", {{"", {{"name", kManifestName}, {"version", "1.0.0"}, {"dependencies", dependencies}}}}}},
      {}};
  for (const auto& [place, package] : packages->items()) {
    if (place.empty()) continue;  // the root package
    if (package.is_object() && package.contains("optional") && package["optional"] == true)
      continue;  // not installed
    const std::string name(name_of_place(place));
    if (!package.is_object() || !is_place(place))
      return fail(ErrorCode::kInvalidInput, "the package at " + place + " does not come from the registry",
                  "Request other packages.");
    auto known = from_registry(package, name);
    if (!known)
      return fail(ErrorCode::kUnsupported,
                  "the package " + name + " does not come from the registry alone, as a file with a digest",
                  "Request a version whose files, and those of its dependencies, are in the registry.");
    clean.packages.push_back({name, text_at(package, "version"), {}, {}});
    clean.lock["packages"][place] = *std::move(known);
  }
  return clean;
}

// Removes links to programs, which nothing can start, and native code.
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
                  "Request a package that is pure JavaScript.");
    }
  }
  for (const fs::path& path : programs) fs::remove_all(path, error);
  if (error)
    return fail(ErrorCode::kUnavailable, "cannot read the files that npm installed: " + error.message(),
                "Try again.");
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
    MEMBRANE_ASSIGN(LockedLanguage locked, read_lock_of(work, dependencies_of(names, pins)));
    for (const policy::PackageName& name : names) locked.asked.push_back(name.text());
    MEMBRANE_TRY(fetch_there(work));
    return locked;
  }

  Status fetch(const WorkDirectory& work, const LockedLanguage& locked) const override {
    MEMBRANE_ASSIGN(const Json lock,
                    read_ordered_json(locked.package_lock, "the lock of npm", {.bytes = kMostLockBytes}));
    MEMBRANE_ASSIGN(const auto names, policy::parse_packages(registry(), locked.asked));
    MEMBRANE_TRY(write_manifest(work, names, {}));
    MEMBRANE_ASSIGN(const CleanLock clean, clean_lock(lock, dependencies_of(names, {})));
    MEMBRANE_TRY(work.write("package-lock.json", json_text(clean.lock)));
    return fetch_there(work);
  }

 private:
  static Json dependencies_of(const std::vector<policy::PackageName>& names,
                              const std::vector<LockedPackage>& pins) {
    Json dependencies = Json::object();
    for (const policy::PackageName& name : names)
      dependencies[name.name] = name.version.empty() ? "*" : name.version;
    for (const LockedPackage& pin : pins)
      if (dependencies.contains(pin.name) && dependencies[pin.name] == "*")
        dependencies[pin.name] = pin.version;
    return dependencies;
  }

  static Status write_manifest(const WorkDirectory& work, const std::vector<policy::PackageName>& names,
                               const std::vector<LockedPackage>& pins) {
    return work.write("package.json", json_text(Json{{"name", kManifestName},
                                                     {"version", "1.0.0"},
                                                     {"private", true},
                                                     {"dependencies", dependencies_of(names, pins)}}));
  }

  // The lock that npm has just written, cleaned; npm continues from that.
  Result<LockedLanguage> read_lock_of(const WorkDirectory& work, const Json& dependencies) const {
    LockedLanguage locked;
    locked.made_for = made_for();
    MEMBRANE_ASSIGN(const std::string text, work.read("package-lock.json", kMostLockBytes));
    MEMBRANE_ASSIGN(const Json lock, read_ordered_json(text, "the lock of npm", {.bytes = kMostLockBytes}));
    MEMBRANE_ASSIGN(CleanLock clean, clean_lock(lock, dependencies));
    locked.packages = std::move(clean.packages);
    locked.package_lock = json_text(clean.lock);
    MEMBRANE_TRY(work.write("package-lock.json", locked.package_lock));
    return locked;
  }

  Status fetch_there(const WorkDirectory& work) const {
    MEMBRANE_TRY(run(work, {"ci"}));
    std::error_code error;
    fs::create_directory(tree_in(work), error);  // for no packages, npm creates none
    return clean_tree(tree_in(work));
  }

  Status run(const WorkDirectory& work, std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "npm");
    for (
        const char* const option :
        {"--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--omit=optional",
         "--omit=dev", "--omit-lockfile-registry-resolved", "--loglevel=error", "--no-progress",
         // Repositories and files of this machine are not packages; every npm honours the first option, and newer
         // ones the others.
         "--git=/bin/false", "--allow-git=none", "--allow-file=none", "--allow-directory=none",
         "--allow-remote=none"})
      arguments.emplace_back(option);
    if (options_.on_progress) options_.on_progress("installing packages with npm");
    const auto end =
        run_installer({.arguments = std::move(arguments), .directory = work.path()}, work, options_);
    if (!end && end.error().code == ErrorCode::kNotFound)
      return fail(ErrorCode::kNotFound, "packages for JavaScript need npm, which is not installed",
                  "Install it: apt install npm.");
    if (!end) return std::unexpected(end.error());
    if (end->exit_code == 0) return {};
    return fail(ErrorCode::kUnavailable, "npm did not find the packages: " + end->output,
                "Check the names and versions. npm uses your own configuration (registry, proxy, "
                "certificates): check whether "
                "npm install works by itself.");
  }

  const Options& options_;
};

}  // namespace

std::unique_ptr<Installer> make_npm_installer(const Options& options) {
  return std::make_unique<NpmInstaller>(options);
}

}  // namespace membrane::packages
