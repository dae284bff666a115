#include "lang/package.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <span>
#include <sstream>

#include "base/diagnostic.h"
#include "base/environment.h"
#include "base/json.h"
#include "base/user_directory.h"
#include "lang/language_names.h"

namespace membrane::lang {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr int kVersion = 1;
constexpr std::string_view kFileName = "language.json";
constexpr std::string_view kDriverNames[] = {"python", "quickjs", "stdin"};
constexpr std::string_view kLineEnd = "\n";  // after code, unless a package says otherwise
constexpr std::string_view kFrameNames[] = {"text", "length", "door", "eof"};

// Reads members and checks their types; unknown members and other types are failures that name the member.
class Members {
 public:
  Members(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object.is_object()) complain("is not an object");
  }

  std::string text(const char* name, bool is_needed = true) {
    const Json* const value = take(name, is_needed);
    if (value == nullptr) return {};
    if (!value->is_string()) return complain(std::string(name) + " is not a string"), std::string();
    return value->get<std::string>();
  }
  [[nodiscard]] bool has(const char* name) const { return object_.is_object() && object_.contains(name); }
  const Json* take(const char* name, bool is_needed) {
    taken_.emplace_back(name);
    if (!object_.is_object()) return nullptr;
    const auto found = object_.find(name);
    if (found != object_.end()) return &*found;
    if (is_needed) complain("has no " + std::string(name));
    return nullptr;
  }
  std::vector<std::string> texts(const char* name) {
    std::vector<std::string> all;
    const Json* const value = take(name, false);
    if (value == nullptr) return all;
    if (!value->is_array()) return complain(std::string(name) + " is not a list"), all;
    for (const Json& each : *value)
      if (each.is_string()) all.push_back(each.get<std::string>());
      else complain(std::string(name) + " has an item that is not a string");
    return all;
  }
  // The first problem; "" when there was none.
  std::string finish() {
    if (object_.is_object())
      for (const auto& [name, value] : object_.items())
        if (std::ranges::find(taken_, name) == taken_.end()) complain("has an unknown member: " + name);
    return failure_;
  }
  void complain(const std::string& what) {
    if (failure_.empty()) failure_ = where_ + " " + what;
  }

 private:
  const Json& object_;
  std::string where_;
  std::vector<std::string> taken_;
  std::string failure_;
};

PackageFile file_of(const Json* object, const std::string& where, const std::string& directory,
                    bool has_guest, std::string& failure) {
  static const Json kNothing;
  Members members(object == nullptr ? kNothing : *object, where);
  PackageFile file;
  if (has_guest) file.guest = members.text("guest");
  file.path = members.text("path");
  file.sha256 = members.text("sha256", false);
  if (has_guest && !file.guest.starts_with("/")) members.complain("has a guest path that is not absolute");
  if (fs::path(file.path).is_relative()) file.path = (fs::path(directory) / file.path).string();
  if (failure.empty()) failure = members.finish();
  return file;
}

template <typename T>
Result<T> by_name(std::span<const std::string_view> names, std::string_view what, std::string_view name) {
  const auto found = std::ranges::find(names, name);
  if (found != names.end()) return static_cast<T>(found - names.begin());
  std::string all;
  for (const std::string_view each : names) all += (all.empty() ? "" : ", ") + std::string(each);
  return fail(ErrorCode::kInvalidArgument,
              "there is no " + std::string(what) + " \"" + std::string(name) + "\"",
              "There are " + all + ".");
}

void read_frame(Members& members, Package& package) {
  package.end = members.text("end", false);
  const bool has_end = members.has("end");
  const std::string frame = members.text("frame", false);
  const auto known = by_name<Frame>(kFrameNames, "frame", frame.empty() ? kFrameNames[0] : frame);
  if (!known) return members.complain("names an unknown frame: " + frame);
  package.frame = *known;
  if (!has_end && package.driver == Driver::kStdin && package.frame == Frame::kText) package.end = kLineEnd;
  if (package.driver != Driver::kStdin && (!frame.empty() || has_end))
    members.complain("has a frame or an end, which only the driver stdin has");
  else if (package.frame != Frame::kText && package.frame != Frame::kEof && has_end)
    members.complain("has an end, which only the frames text and eof have");
  else if (package.frame == Frame::kEof && !package.init.empty())
    members.complain("has an init, which the frame eof cannot have: each turn starts the program");
  else if (package.frame == Frame::kDoor && !package.init.empty())
    members.complain("has an init, which the frame door cannot run: put it into the arguments");
}

void read_warm(Members& members, Package& package) {
  const Json* const lists = members.take("warm", false);
  if (lists == nullptr) return;
  if (package.driver != Driver::kPython)
    return members.complain("has warm modules, which only the driver python has");
  if (!lists->is_array() || lists->size() > kMostWarmLists)
    return members.complain("warm is not a list of at most " + std::to_string(kMostWarmLists) + " lists");
  for (const Json& list : *lists) {
    const auto is_module = [](const Json& name) {
      return name.is_string() && is_module_name(name.get_ref<const std::string&>());
    };
    if (!list.is_array() || list.empty() || list.size() > kMostWarmModules ||
        !std::ranges::all_of(list, is_module))
      return members.complain("warm has an item that is not a list of 1 to " +
                              std::to_string(kMostWarmModules) + " names of modules");
    package.warm.push_back(list.get<std::vector<std::string>>());
  }
}

std::string text_of_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return std::move(text).str();
}

// A package names files of this machine, which its programs then read: so a user who can write packages could read
// any file of the user who runs them. Errors: kDenied.
Status check_closed(const fs::path& path) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0 || (status.st_mode & S_IWOTH) == 0) return {};
  return fail(ErrorCode::kDenied,
              "no language is loaded from " + path.string() + ", since any user can write to it",
              "If its contents are correct: chmod o-w " + path.string());
}

}  // namespace

std::string_view name_of(Driver driver) { return kDriverNames[static_cast<size_t>(driver)]; }
std::string_view name_of(Frame frame) { return kFrameNames[static_cast<size_t>(frame)]; }

bool is_module_name(std::string_view name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  };
  return !name.empty() && std::ranges::all_of(name, fits);
}

Result<Driver> driver_of(std::string_view name) { return by_name<Driver>(kDriverNames, "driver", name); }
Result<Frame> frame_of(std::string_view name) { return by_name<Frame>(kFrameNames, "frame", name); }

Result<Package> read_package(const std::string& directory) {
  const fs::path path = fs::path(directory) / kFileName;
  std::error_code error;
  if (!fs::is_regular_file(path, error))
    return fail(ErrorCode::kNotFound, directory + " has no " + std::string(kFileName), "");
  const auto malformed = [&](const std::string& what) {
    return fail(ErrorCode::kInvalidInput, path.string() + ": " + what,
                "See docs/languages.md for its contents.");
  };
  MEMBRANE_TRY(check_closed(directory));
  MEMBRANE_TRY(check_closed(path));
  const auto read = read_ordered_json(text_of_file(path), "it");
  if (!read) return malformed(read.error().message);
  const Json& object = *read;
  Package package;
  std::string failure;
  Members members(object, "it");
  const Json* const version = members.take("language", true);
  if (version == nullptr || *version != kVersion) members.complain("has an unknown version");
  package.directory = directory;
  package.name = members.text("name");
  package.version = members.text("version", false);
  const std::string driver = members.text("driver");
  if (const auto known = driver_of(driver)) package.driver = *known;
  else members.complain("names an unknown driver: " + driver);
  package.module = file_of(members.take("module", true), "module", directory, false, failure);
  if (const Json* const files = members.take("files", false)) {
    if (!files->is_array()) members.complain("files is not a list");
    else
      for (const Json& file : *files)
        package.files.push_back(file_of(&file, "files", directory, true, failure));
  }
  if (const Json* const environment = members.take("environment", false)) {
    if (!environment->is_object()) members.complain("environment is not an object");
    else
      for (const auto& [name, value] : environment->items())
        if (value.is_string()) package.environment.emplace_back(name, value.get<std::string>());
        else members.complain("environment has a value that is not a string");
  }
  package.arguments = members.texts("arguments");
  package.extensions = members.texts("extensions");
  package.init = members.text("init", false);
  read_warm(members, package);
  read_frame(members, package);
  if (failure.empty()) failure = members.finish();
  if (!failure.empty()) return malformed(failure);
  return package;
}

std::string to_json(const Package& package) {
  const auto file = [](const PackageFile& f) {
    Json object;
    if (!f.guest.empty()) object["guest"] = f.guest;
    object["path"] = f.path;
    if (!f.sha256.empty()) object["sha256"] = f.sha256;
    return object;
  };
  Json object = {{"language", kVersion},
                 {"name", package.name},
                 {"version", package.version},
                 {"driver", name_of(package.driver)},
                 {"module", file(package.module)}};
  object["files"] = Json::array();
  for (const PackageFile& f : package.files) object["files"].push_back(file(f));
  object["environment"] = Json::object();
  for (const auto& [name, value] : package.environment) object["environment"][name] = value;
  object["arguments"] = package.arguments;
  object["extensions"] = package.extensions;
  if (!package.init.empty()) object["init"] = package.init;
  if (!package.warm.empty()) object["warm"] = package.warm;
  if (package.frame != Frame::kText) object["frame"] = name_of(package.frame);
  const bool has_end =
      package.frame == Frame::kText || (package.frame == Frame::kEof && !package.end.empty());
  if (package.driver == Driver::kStdin && has_end) object["end"] = package.end;
  return object.dump(2) + "\n";
}

std::vector<std::string> package_directories() {
  std::vector<std::string> directories;
  if (const std::string given = environment_variable("MEMBRANE_LANGUAGES"); !given.empty())
    directories.push_back(given);
  if (std::string own = user_path(UserDirectory::kData, "languages"); !own.empty())
    directories.push_back(std::move(own));
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error)
    directories.push_back((program.parent_path().parent_path() / "share/membrane/languages").string());
  return directories;
}

std::vector<Package> installed_packages() {
  std::vector<Package> packages;
  std::error_code error;
  for (const std::string& directory : package_directories()) {
    if (!check_closed(directory)) continue;
    for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
      auto package = read_package(entry.path().string());
      const auto same = [&](const Package& known) { return known.name == package->name; };
      if (package && std::ranges::none_of(packages, same)) packages.push_back(std::move(*package));
    }
  }
  std::ranges::sort(packages, {}, &Package::name);
  return packages;
}

namespace {

// The known or installed language that `name` was probably meant to be. "" for none, and if `name` is one of them.
std::string near_name(std::string_view name) {
  const std::vector<Package> installed = installed_packages();
  std::vector<std::string_view> known;
  for (const KnownLanguage& each : known_languages())
    for (const std::string_view tag : each.tags)
      if (!tag.empty()) known.push_back(tag);
  for (const Package& each : installed) known.push_back(each.name);
  if (std::ranges::find(known, name) != known.end()) return "";
  return std::string(nearest(name, known));
}

}  // namespace

Result<Package> find_package(std::string_view name) {
  for (const std::string& directory : package_directories()) {
    const fs::path path = fs::path(directory) / name;
    std::error_code error;
    if (!fs::is_regular_file(path / kFileName, error)) continue;
    MEMBRANE_TRY(check_closed(directory));
    return read_package(path.string());
  }
  const std::string near = near_name(name);
  const std::string add = name == "python" || name == "js"
                              ? "Install it: membrane languages add " + std::string(name) +
                                    " (docs/languages.md says what that brings)."
                              : "Add it: membrane languages add " + std::string(name) + " module.wasm";
  return fail(ErrorCode::kNotFound, "the language " + std::string(name) + " is not installed",
              near.empty() ? add
                           : "Did you mean " + near + "? Else add it: membrane languages add " +
                                 std::string(name) + " module.wasm");
}

}  // namespace membrane::lang
