// Packages for Python: host/wheels.py, run by the user's Python, with the user's pip.

#include <algorithm>
#include <utility>

#include "base/json.h"
#include "lang/guest_files.h"
#include "lang/known_packages.h"
#include "packages/installer.h"

namespace membrane::packages {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostResultBytes = 4u << 20;

std::string_view embedded(std::string_view language, std::string_view path) {
  const auto files = lang::guest_files();
  const auto found = std::ranges::find_if(
      files, [&](const lang::GuestFile& file) { return file.language == language && file.path == path; });
  if (found == files.end()) return {};
  return {reinterpret_cast<const char*>(found->bytes.data()), found->bytes.size()};
}

// The version that Membrane's replacement for requests reports.
std::string version_of_requests() {
  constexpr std::string_view kBefore = "__version__ = \"";
  std::string_view text = embedded("python", "requests/__init__.py");
  const size_t at = text.find(kBefore);
  if (at == std::string_view::npos) return "";
  text.remove_prefix(at + kBefore.size());
  return std::string(text.substr(0, text.find('"')));
}

std::string text_at(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

ErrorCode code_of(const std::string& name) {
  using enum ErrorCode;
  for (const ErrorCode code : {kInvalidArgument, kInvalidInput, kNotFound, kUnsupported, kUnavailable})
    if (name_of(code) == name) return code;
  return kUnavailable;
}

class PythonInstaller final : public Installer {
 public:
  PythonInstaller(const lang::Package& language, const Options& options) : options_(options) {
    const size_t second_dot = language.version.find('.', language.version.find('.') + 1);
    version_ = language.version.substr(0, second_dot);
    made_for_ = language.version;
    for (const lang::PackageFile& file : language.files)
      if (file.guest.ends_with(".zip")) {
        library_ = file.path;
        made_for_ += " " + file.sha256;
      }
  }

  [[nodiscard]] policy::Registry registry() const override { return policy::Registry::kPython; }
  [[nodiscard]] std::string_view guest_directory() const override { return kPythonPackages; }
  [[nodiscard]] std::string made_for() const override { return made_for_; }
  [[nodiscard]] std::optional<LockedLanguage>& part_of(Lock& lock) const override { return lock.python; }
  [[nodiscard]] std::string tree_in(const WorkDirectory& work) const override {
    return work.path() + "/tree";
  }

  Result<LockedLanguage> resolve(const WorkDirectory& work, const std::vector<policy::PackageName>& names,
                                 const std::vector<LockedPackage>& pins) const override {
    MEMBRANE_TRY(refuse_native(names));
    Json asked = Json::array(), pinned = Json::array();
    for (const policy::PackageName& name : names)
      asked.push_back({{"name", name.name}, {"version", name.version}});
    for (const LockedPackage& pin : pins) pinned.push_back(pin.name + "==" + pin.version);
    auto found = run(work, {{"asked", asked}, {"pins", pinned}});
    if (!found) return std::unexpected(with_meant_name(std::move(found).error(), names));
    LockedLanguage locked = *std::move(found);
    for (const policy::PackageName& name : names) locked.asked.push_back(name.text());
    return locked;
  }

  Status fetch(const WorkDirectory& work, const LockedLanguage& locked) const override {
    Json files = Json::array();
    for (const LockedPackage& package : locked.packages)
      files.push_back({{"name", package.name}, {"version", package.version}, {"sha256", package.sha256}});
    MEMBRANE_ASSIGN(const LockedLanguage found, run(work, {{"locked", files}}));
    if (found.packages == locked.packages) return {};
    return fail(ErrorCode::kInvalidInput, "pip downloaded files other than those in the lock",
                "Remove the lock: the packages are then resolved again, and a new lock is written.");
  }

 private:
  // Without a version, pip would fall back to an old version that was pure Python, if there is one.
  static Status refuse_native(const std::vector<policy::PackageName>& names) {
    for (const policy::PackageName& name : names)
      if (const std::string_view instead = lang::instead_of_native(name.name);
          !instead.empty() && name.version.empty())
        return fail(ErrorCode::kUnsupported, name.name + " needs native code, which does not run here",
                    "Use " + std::string(instead) + ".");
    return {};
  }

  static Error with_meant_name(Error error, const std::vector<policy::PackageName>& names) {
    for (const policy::PackageName& name : names)
      if (const std::string_view meant = lang::near_distribution(name.name);
          !meant.empty() && error.message.contains("No matching distribution found for " + name.name)) {
        error.hint = "Did you mean " + std::string(meant) + "? " + error.hint;
        break;
      }
    return error;
  }

  Result<LockedLanguage> run(const WorkDirectory& work, Json request) const {
    request["python"] = version_;
    request["library"] = library_;
    request["own"] = {{"requests", version_of_requests()}};
    MEMBRANE_TRY(work.write("request.json", json_text(request)));
    if (options_.on_progress) options_.on_progress("installing packages with pip");
    auto end = run_installer(
        {.arguments = {"python3", "-c", std::string(embedded("host", "wheels.py")), work.path()}}, work,
        options_);
    if (!end && end.error().code == ErrorCode::kNotFound)
      return fail(ErrorCode::kNotFound, "packages for Python need pip, and python3 is not installed",
                  "Install both: apt install python3-pip.");
    if (!end) return std::unexpected(std::move(end).error());
    const auto text = work.read("result.json", kMostResultBytes);
    if (end->exit_code != 0 || !text)
      return fail(ErrorCode::kUnavailable,
                  "pip ended with exit code " + std::to_string(end->exit_code) + ": " + end->output,
                  "Check whether python3 -m pip download works by itself.");
    return read_result(*text);
  }

  [[nodiscard]] Result<LockedLanguage> read_result(std::string_view text) const {
    MEMBRANE_ASSIGN(const Json result, read_json(text, "what wheels.py found"));
    if (const auto error = result.find("error"); error != result.end())
      return fail(code_of(text_at(*error, "code")), text_at(*error, "message"), text_at(*error, "hint"));
    LockedLanguage locked{
        .asked = {}, .made_for = made_for_, .packages = {}, .built_in = {}, .package_lock = {}};
    for (const Json& each : result.value("packages", Json::array()))
      locked.packages.push_back(
          {text_at(each, "name"), text_at(each, "version"), text_at(each, "file"), text_at(each, "sha256")});
    for (const Json& each : result.value("built_in", Json::array()))
      locked.built_in.push_back(text_at(each, "name") + "==" + text_at(each, "version"));
    if (options_.on_notice)
      for (const Json& each : result.value("older", Json::array())) options_.on_notice(say_older(each));
    return locked;
  }

  static std::string say_older(const Json& package) {
    const std::string lacks = text_at(package, "lacks"), newest = text_at(package, "newest");
    const bool is_native = package.contains("lacks") && package["lacks"].is_null();
    return "programs get " + text_at(package, "name") + " " + text_at(package, "version") +
           ", an older version: " +
           (is_native ? "of " + newest + " there"
                      : newest + " needs " + (lacks.empty() ? "a package" : lacks) + ", of which there") +
           " is no pure Python wheel";
  }

  const Options& options_;
  std::string version_;  // "3.15"
  std::string library_;  // the archive of built-in modules
  std::string made_for_;
};

}  // namespace

std::unique_ptr<Installer> make_python_installer(const lang::Package& language, const Options& options) {
  return std::make_unique<PythonInstaller>(language, options);
}

}  // namespace membrane::packages
