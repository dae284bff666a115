#include "packages/lock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/file_mapping.h"
#include "base/json.h"
#include "base/private_file.h"
#include "base/write_at.h"

namespace membrane::packages {
namespace {

using Json = nlohmann::ordered_json;
using policy::Registry;

constexpr int kVersion = 1;
constexpr size_t kMostLockBytes = 16u << 20;
constexpr size_t kMostLocked = 5'000;  // per language
constexpr size_t kMostTextBytes = 1'000;

std::unexpected<Error> malformed(const std::string& what) {
  return fail(ErrorCode::kInvalidInput, "the lock of packages is malformed: " + what,
              "Remove it: the packages are then resolved again, and a new lock is written.");
}

bool is_digest(std::string_view text) {
  return text.size() == 64 &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

Result<std::string> text_at(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_string()) return malformed(std::string(name) + " is not a string");
  auto text = found->get<std::string>();
  if (text.size() > kMostTextBytes || text.find_first_of("\r\n") != std::string::npos)
    return malformed(std::string(name) + " is not a single line of text");
  return text;
}

Result<std::vector<std::string>> names_at(const Json& object, const char* name, Registry registry) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_array() || found->size() > kMostLocked)
    return malformed(std::string(name) + " is not a list");
  std::vector<std::string> names;
  for (const Json& each : *found) {
    if (!each.is_string()) return malformed(std::string(name) + " has an item that is not a name");
    MEMBRANE_ASSIGN(const auto package, policy::parse_package(registry, each.get<std::string>()));
    names.push_back(package.text());
  }
  return names;
}

Result<LockedPackage> package_of(const Json& object, Registry registry) {
  if (!object.is_object()) return malformed("a package is not an object");
  LockedPackage package;
  MEMBRANE_ASSIGN(package.name, text_at(object, "name"));
  MEMBRANE_ASSIGN(package.version, text_at(object, "version"));
  if (const auto named = policy::parse_package(registry, package.name + "==" + package.version);
      !named || named->version.contains('*'))
    return malformed(package.name + " " + package.version + " is not a version of a package");
  if (registry == Registry::kJavaScript) return package;
  MEMBRANE_ASSIGN(package.file, text_at(object, "file"));
  MEMBRANE_ASSIGN(package.sha256, text_at(object, "sha256"));
  if (!is_digest(package.sha256)) return malformed("the SHA-256 of " + package.name);
  return package;
}

Result<LockedLanguage> language_of(const Json& object, Registry registry) {
  if (!object.is_object()) return malformed("a language is not an object");
  LockedLanguage locked;
  MEMBRANE_ASSIGN(locked.asked, names_at(object, "asked", registry));
  MEMBRANE_ASSIGN(locked.made_for, text_at(object, "made_for"));
  const auto packages = object.find("packages");
  if (packages == object.end() || !packages->is_array() || packages->size() > kMostLocked)
    return malformed("packages is not a list");
  for (const Json& each : *packages) {
    MEMBRANE_ASSIGN(LockedPackage package, package_of(each, registry));
    locked.packages.push_back(std::move(package));
  }
  if (registry == Registry::kPython) {
    MEMBRANE_ASSIGN(locked.built_in, names_at(object, "built_in", registry));
  } else {
    const auto npm = object.find("package_lock");
    if (npm == object.end() || !npm->is_object()) return malformed("package_lock is not an object");
    locked.package_lock = json_text(*npm);
  }
  return locked;
}

Json json_of(const LockedLanguage& locked, Registry registry) {
  Json object = {{"asked", locked.asked}, {"made_for", locked.made_for}};
  Json packages = Json::array();
  for (const LockedPackage& package : locked.packages) {
    Json each = {{"name", package.name}, {"version", package.version}};
    if (registry == Registry::kPython) {
      each["file"] = package.file;
      each["sha256"] = package.sha256;
    }
    packages.push_back(std::move(each));
  }
  if (registry == Registry::kPython) object["built_in"] = locked.built_in;
  object["packages"] = std::move(packages);
  if (registry == Registry::kJavaScript)
    object["package_lock"] = read_ordered_json(locked.package_lock).value_or(Json::object());
  return object;
}

}  // namespace

Result<Lock> read_lock(std::string_view text) {
  const auto read = read_ordered_json(text, "the lock of packages", {.bytes = kMostLockBytes});
  if (!read) return malformed(read.error().message);
  if (!read->is_object() || read->value("membrane_lock", Json()) != kVersion)
    return malformed("it is not a lock of this version");
  Lock lock;
  if (const auto python = read->find("python"); python != read->end()) {
    MEMBRANE_ASSIGN(lock.python, language_of(*python, Registry::kPython));
  }
  if (const auto javascript = read->find("javascript"); javascript != read->end()) {
    MEMBRANE_ASSIGN(lock.javascript, language_of(*javascript, Registry::kJavaScript));
  }
  return lock;
}

std::string to_text(const Lock& lock) {
  Json object = {{"membrane_lock", kVersion}};
  if (lock.python) object["python"] = json_of(*lock.python, Registry::kPython);
  if (lock.javascript) object["javascript"] = json_of(*lock.javascript, Registry::kJavaScript);
  return object.dump(2) + "\n";
}

Result<Lock> load_lock(const std::string& path) {
  const OpenedFile file(path);
  if (!file.usable()) {
    if (file.number() < 0 && errno == ENOENT) return Lock();
    return fail(ErrorCode::kUnavailable, "cannot read the lock of packages " + path,
                "Make it a file that you can read.");
  }
  if (file.bytes() > kMostLockBytes) return malformed("it is too large");
  const FileMapping mapping(file.number(), 0, file.bytes());
  auto lock = read_lock({reinterpret_cast<const char*>(mapping.bytes().data()), mapping.bytes().size()});
  if (!lock) lock.error().message = path + ": " + lock.error().message;
  return lock;
}

Status save_lock(const std::string& path, const Lock& lock, LockPlace place) {
  const std::string beside = path + "." + std::to_string(getpid()) + ".new";
  const auto refused = [&] {
    auto error = refused_by_system("write the lock of packages", path);
    error.error().hint =
        "Make the directory writable, or create the lock elsewhere and keep it with the policy.";
    return error;
  };
  const mode_t mode = place == LockPlace::kCache ? 0600 : 0666;
  const int file = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
  if (file < 0) return refused();
  const std::string text = to_text(lock);
  const bool written =
      write_at(file, 0, {reinterpret_cast<const uint8_t*>(text.data()), text.size()}) && fsync(file) == 0;
  close(file);
  if (written && rename(beside.c_str(), path.c_str()) == 0) return {};
  auto error = refused();
  unlink(beside.c_str());
  return error;
}

}  // namespace membrane::packages
