#include "packages/provide.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <utility>

#include "base/hex.h"
#include "base/private_file.h"
#include "base/user_directory.h"
#include "packages/bytecode.h"
#include "packages/installer.h"
#include "packages/layer.h"
#include "packages/lock.h"

namespace membrane::packages {
namespace {

using policy::PackageName;

constexpr std::string_view kLayerEnding = ".layer";
constexpr uint64_t kMostCachedBytes = 2ull << 30;  // for all layers
constexpr std::string_view kLockEnding = ".lock";
constexpr uint64_t kMostLockBytes = 64ull << 20;  // for all locks

std::string digest_of(std::string_view text) {
  XXH128_canonical_t
      hash;  // no need for a cryptographic hash: the directory is private, and the key is compared in full
  XXH128_canonicalFromHash(&hash, XXH3_128bits(text.data(), text.size()));
  return hex_of(hash.digest);
}

std::vector<std::string> texts_of(const std::vector<PackageName>& names) {
  std::vector<std::string> texts;
  for (const PackageName& name : names) texts.push_back(name.text());
  return texts;
}

class Provider {
 public:
  Provider(const Installer& installer, std::shared_ptr<const sandbox::Template> language,
           const Options& options)
      : installer_(installer), language_(std::move(language)), options_(options) {}

  // The contents of the lock, which is created if it does not exist or is for other names.
  Result<LockedLanguage> lock_of(const std::vector<PackageName>& names,
                                 const std::vector<LockedPackage>& pins, const std::string& lock_file) const {
    const bool is_cached = lock_file.empty();
    const std::string path = is_cached ? cached_lock(names, pins) : lock_file;
    auto lock = is_cached && !PrivateFile(path).usable() ? Result<Lock>(Lock()) : load_lock(path);
    if (!lock && !is_cached) return std::unexpected(std::move(lock).error());
    if (!lock) lock = Lock();  // a damaged lock in the cache is replaced
    std::optional<LockedLanguage>& part = installer_.part_of(*lock);
    if (part && part->asked == texts_of(names) && part->made_for == installer_.made_for()) return *part;
    if (part && !is_cached && options_.on_notice)
      options_.on_notice("the lock " + path +
                         " is for other packages or another version of the language: it is replaced");
    MEMBRANE_ASSIGN(const WorkDirectory work, WorkDirectory::make(options_.cache_directory));
    MEMBRANE_ASSIGN(part, installer_.resolve(work, names, pins));
    MEMBRANE_TRY(keep(*part, work));
    MEMBRANE_TRY(save_lock(path, *lock, is_cached ? LockPlace::kCache : LockPlace::kBesidePolicy));
    if (is_cached) make_room(options_.cache_directory, kLockEnding, kMostLockBytes, path);
    return *part;
  }

  // The language with the files of a lock, which are fetched if necessary.
  Result<std::shared_ptr<const sandbox::Template>> with_files_of(const LockedLanguage& locked) const {
    const std::string key = key_of(locked), path = layer_path(key);
    auto layer = Layer::open(path, key);
    if (!layer) {
      if (layer.error().code == ErrorCode::kInvalidInput && options_.on_notice)
        options_.on_notice("the layer " + path + " is damaged: Membrane builds a new one");
      MEMBRANE_ASSIGN(const WorkDirectory work, WorkDirectory::make(options_.cache_directory));
      MEMBRANE_TRY(installer_.fetch(work, locked));
      MEMBRANE_TRY(keep(locked, work));
      layer = Layer::open(path, key);
      if (!layer) return std::unexpected(std::move(layer).error());
    }
    return sandbox::Template::over(language_, layer->files(installer_.guest_directory()),
                                   std::string(installer_.guest_directory()), key, path);
  }

  // Everything that a layer's files depend on, in one line. The layer stores it, and it is compared in full: the
  // author of a lock cannot have another lock's layer used for it.
  [[nodiscard]] std::string key_of(const LockedLanguage& locked) const {
    std::string text = installer_.made_for();
    for (const LockedPackage& package : locked.packages)
      text += " " + package.name + "==" + package.version + " " + package.sha256;
    return locked.package_lock.empty() ? text : text + " " + locked.package_lock;
  }

 private:
  [[nodiscard]] std::string cached_lock(const std::vector<PackageName>& names,
                                        const std::vector<LockedPackage>& pins) const {
    std::string text = installer_.made_for() + "\n";
    for (const PackageName& name : names) text += name.text() + "\n";
    for (const LockedPackage& pin : pins) text += "pin " + pin.name + "==" + pin.version + "\n";
    return options_.cache_directory + "/" + digest_of(text) + std::string(kLockEnding);
  }

  [[nodiscard]] std::string layer_path(const std::string& key) const {
    return options_.cache_directory + "/" + digest_of(key) + std::string(kLayerEnding);
  }

  Status keep(const LockedLanguage& locked, const WorkDirectory& work) const {
    const std::string key = key_of(locked), path = layer_path(key);
    if (installer_.registry() == policy::Registry::kPython) {
      if (options_.on_progress) options_.on_progress("compiling packages");
      MEMBRANE_TRY(add_bytecode(language_, installer_.guest_directory(), installer_.tree_in(work), work,
                                options_.cancel));
    }
    MEMBRANE_TRY(write_layer(path, key, installer_.tree_in(work)));
    make_room(options_.cache_directory, kLayerEnding, kMostCachedBytes, path);
    return {};
  }

  const Installer& installer_;
  std::shared_ptr<const sandbox::Template> language_;
  const Options& options_;
};

Status use_cache(const std::string& directory) {
  if (directory.empty())
    return fail(ErrorCode::kInvalidArgument, "there is no directory for packages",
                "Set HOME or XDG_CACHE_HOME.");
  if (!make_directory(directory)) return refused_by_system("make", directory);
  return check_private_directory(directory, "a package");
}

}  // namespace

Names names_for(lang::Driver driver) {
  switch (driver) {
    case lang::Driver::kPython: return &policy::Packages::python;
    case lang::Driver::kQuickJs: return &policy::Packages::javascript;
    case lang::Driver::kStdin: return nullptr;
  }
  return nullptr;
}

std::string default_cache_directory() { return user_path(UserDirectory::kCache, "packages"); }

Result<std::shared_ptr<const sandbox::Template>> provide(std::shared_ptr<const sandbox::Template> language,
                                                         const Wanted& wanted, const Options& options) {
  if (wanted.named.empty() && wanted.added.empty()) return language;
  MEMBRANE_ASSIGN(const auto installer, Installer::of(language->package(), options));
  MEMBRANE_TRY(use_cache(options.cache_directory));
  MEMBRANE_ASSIGN(const auto named, policy::parse_packages(installer->registry(), wanted.named));
  std::vector<std::string> every = wanted.named;
  every.insert(every.end(), wanted.added.begin(), wanted.added.end());
  MEMBRANE_ASSIGN(const auto all, policy::parse_packages(installer->registry(), every));
  const Provider provider(*installer, language, options);
  LockedLanguage locked;
  if (!named.empty()) {
    MEMBRANE_ASSIGN(locked, provider.lock_of(named, {}, wanted.lock_file));
  }
  if (!wanted.added.empty()) {
    MEMBRANE_ASSIGN(locked, provider.lock_of(all, locked.packages, ""));
  }
  if (options.on_notice)
    for (std::string package : locked.built_in)
      options.on_notice(package.replace(package.find("=="), 2, " ") + " is built in");
  if (locked.packages.empty()) return language;
  return provider.with_files_of(locked);
}

Result<std::shared_ptr<const sandbox::Template>> find_template(const sandbox::TemplateSpec& spec) {
  MEMBRANE_ASSIGN(lang::Package package, lang::read_package(spec.package_directory));
  sandbox::TemplateOptions options;
  options.cache_directory = spec.cache_directory;
  options.tier = spec.tier;
  options.only_finds = true;
  MEMBRANE_ASSIGN(auto found, sandbox::Template::open(std::move(package), options, spec.modules));
  if (spec.layer_path.empty()) return found;
  MEMBRANE_ASSIGN(const Layer layer, Layer::open(spec.layer_path, spec.layer_key));
  return sandbox::Template::over(std::move(found), layer.files(spec.imports), spec.imports, spec.layer_key,
                                 spec.layer_path);
}

}  // namespace membrane::packages
