#include "computers/layer_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <set>
#include <utility>

#include "base/private_file.h"
#include "linux/image/layer.h"
#include "linux/image/store.h"

namespace membrane::computers {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLayer = ".layer";
constexpr const char* kImage = ".image";
constexpr const char* kLatest = ".latest";  // suffix of a step's key; contains the key of its layer
constexpr const char* kUses =
    ".uses";  // suffix of an image's digest; contains the keys it was made from, one per line
constexpr uint64_t kMostBytes = 16ull << 30;  // of layers

std::string temporary_name() {
  static int count = 0;
  return "new." + std::to_string(getpid()) + "." + std::to_string(++count);
}

// Whether its writer's process is gone.
bool is_left_over(const std::string& name) {
  if (!name.starts_with("new.")) return false;
  const int process = std::atoi(name.c_str() + 4);
  return process <= 0 || !fs::exists("/proc/" + std::to_string(process));
}

}  // namespace

Result<LayerCache> LayerCache::open() {
  MEMBRANE_ASSIGN(const std::string some, linux::path_of_new_image("x"));
  std::string directory = (fs::path(some).parent_path() / ".layers").string();
  if (!fs::exists(directory) && !make_directory(directory)) return refused_by_system("make", directory);
  MEMBRANE_TRY(check_private_directory(directory, "layers of images"));
  linux::HostFile lock(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock || flock(lock.number(), LOCK_SH) != 0) return refused_by_system("lock", directory);
  return LayerCache(std::move(directory), std::move(lock));
}

linux::HostFile LayerCache::layer(const std::string& key) const {
  const std::string path = path_of(key, kLayer);
  linux::HostFile file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (file) utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
  return file;
}

std::optional<std::string> LayerCache::image(const std::string& key) const {
  std::string path = path_of(key, kImage);
  return linux::Layer::open(path) ? std::optional(std::move(path)) : std::nullopt;
}

Result<LayerCache::NewEntry> LayerCache::add(const std::string& path) const {
  NewEntry entry;
  entry.path_ = path;
  entry.beside_ = directory_ + "/" + temporary_name();
  entry.file_ = linux::HostFile(::open(entry.beside_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!entry.file_) {
    auto refused = refused_by_system("write", entry.beside_);
    entry.beside_.clear();
    return refused;
  }
  return entry;
}

Result<LayerCache::NewEntry> LayerCache::add_layer(const std::string& key) const {
  make_room(directory_, kLayer, kMostBytes, "");
  return add(path_of(key, kLayer));
}
Result<LayerCache::NewEntry> LayerCache::add_image(const std::string& key) const {
  return add(path_of(key, kImage));
}

Status LayerCache::keep_latest(NewEntry layer, const std::string& key, const std::string& own) const {
  layer.path_ = path_of(own, kLayer);
  MEMBRANE_TRY(layer.keep());
  MEMBRANE_ASSIGN(NewFile latest, NewFile::create(path_of(key, kLatest)));
  MEMBRANE_TRY(latest.write(0, {reinterpret_cast<const uint8_t*>(own.data()), own.size()}));
  return latest.publish();
}

std::optional<std::string> LayerCache::latest(const std::string& key) const {
  std::string own;
  std::ifstream file(path_of(key, kLatest));
  if (!std::getline(file, own) || own.size() != key.size() || own.find('/') != own.npos) return std::nullopt;
  return own;
}

LayerCache::NewEntry::NewEntry(NewEntry&& other) noexcept
    : file_(std::move(other.file_)),
      beside_(std::exchange(other.beside_, "")),
      path_(std::move(other.path_)) {}

LayerCache::NewEntry::~NewEntry() {
  if (!beside_.empty()) unlink(beside_.c_str());
}

Result<std::string> LayerCache::NewEntry::keep() {
  if (rename(beside_.c_str(), path_.c_str()) != 0) return refused_by_system("write", path_);
  beside_.clear();
  return path_;
}

Status LayerCache::name_image(const std::string& key, const std::string& name,
                              const std::vector<std::string>& layers) const {
  const std::string from = path_of(key, kImage), beside = directory_ + "/" + temporary_name();
  MEMBRANE_ASSIGN(const auto image, linux::Layer::open(from));
  MEMBRANE_ASSIGN(NewFile uses, NewFile::create(path_of(std::string(image->digest()), kUses)));
  std::string text = key + "\n";
  for (const std::string& layer : layers) text += layer + "\n";
  MEMBRANE_TRY(uses.write(0, {reinterpret_cast<const uint8_t*>(text.data()), text.size()}));
  MEMBRANE_TRY(uses.publish());
  MEMBRANE_ASSIGN(const std::string to, linux::path_of_new_image(name));
  if (link(from.c_str(), beside.c_str()) != 0) return refused_by_system("write", to);
  linux::retire_image(to);
  const bool is_named = rename(beside.c_str(), to.c_str()) == 0;
  const int error = errno;
  unlink(beside.c_str());  // rename() leaves both of two names of one file
  errno = error;
  return is_named ? Status() : refused_by_system("write", to);
}

Result<LayerCache::Pruned> LayerCache::prune() const {
  if (flock(lock_.number(), LOCK_EX | LOCK_NB) != 0)
    return fail(ErrorCode::kUnavailable, "an image is being built from layers that no image uses yet",
                "Prune when it is done.");
  std::set<std::string> used;  // file names
  MEMBRANE_ASSIGN(const auto images, linux::list_images());
  for (const linux::StoredImage& each : images) {
    const auto image = linux::Layer::open(each.path);
    if (!image) continue;
    const std::string digest((*image)->digest());
    used.insert(digest + kUses);
    std::ifstream uses(path_of(digest, kUses));
    for (std::string key; std::getline(uses, key);) {
      used.insert(key + kLayer);
      used.insert(key + kImage);
    }
  }
  MEMBRANE_ASSIGN(const linux::PrunedImages removed, linux::prune_images());
  Pruned pruned = {.files = removed.files, .bytes = removed.bytes};
  std::error_code error;
  for (fs::directory_iterator at(directory_, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    const bool is_latest = name.ends_with(kLatest);
    const bool is_ours =
        is_latest || name.ends_with(kLayer) || name.ends_with(kImage) || name.ends_with(kUses);
    const std::string serves =
        is_latest ? latest(name.substr(0, name.find('.'))).value_or("") + kLayer : name;
    if (used.contains(serves) || (!is_ours && !is_left_over(name))) continue;
    struct stat status = {};
    if (lstat(at->path().c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    if (unlink(at->path().c_str()) != 0) return refused_by_system("remove", at->path().string());
    ++pruned.files;
    if (status.st_nlink == 1) pruned.bytes += static_cast<uint64_t>(status.st_blocks) * 512;
  }
  return pruned;
}

}  // namespace membrane::computers
