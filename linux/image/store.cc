#include "linux/image/store.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/diagnostic.h"
#include "base/environment.h"
#include "base/private_file.h"
#include "base/user_directory.h"
#include "linux/image/directory.h"
#include "linux/image/layer.h"
#include "linux/image/layer_writer.h"
#include "linux/image/oci.h"
#include "linux/image/tar.h"

namespace membrane::linux {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnding = ".image";
constexpr const char* kRemoved = ".removed";  // beside images: by their digests

// The user's own directory; "" without a home.
std::string own_directory() {
  if (std::string given = environment_variable("MEMBRANE_IMAGES"); !given.empty()) return given;
  return user_path(UserDirectory::kData, "images");
}

std::vector<std::string> directories() {
  std::vector<std::string> all;
  if (std::string own = own_directory(); !own.empty()) all.push_back(std::move(own));
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error) all.push_back((program.parent_path().parent_path() / "share/membrane/images").string());
  return all;
}

// Refuses a directory to which everybody may write.
Status check_closed(const std::string& directory) {
  struct stat status = {};
  if (stat(directory.c_str(), &status) != 0 || (status.st_mode & S_IWOTH) == 0) return {};
  return refused_as_open(directory,
                         "images in " + directory + " are not used, since everybody may write to it");
}

Status check_name(const std::string& name) {
  if (is_image_name(name)) return {};
  return fail(ErrorCode::kInvalidArgument, '"' + name.substr(0, 200) + "\" is not a name of an image",
              "Use letters, digits, '.', '_', '-' and ':', and begin with a letter or digit.");
}

std::string path_in(const std::string& directory, const std::string& name) {
  return directory + "/" + name + std::string(kEnding);
}

std::unexpected<Error> not_there(const std::string& name) {
  const auto images = list_images();
  if (!images || images->empty())
    return fail(ErrorCode::kNotFound, "there is no image " + name,
                "`membrane image import FILE.tar --tag NAME` makes one of a file system, as `docker export` "
                "writes it; `make images` in Membrane's source tree makes a Debian.");
  std::vector<std::string_view> names;
  for (const StoredImage& image : *images) names.push_back(image.name);
  const std::string near(nearest(name, names));
  return fail(ErrorCode::kNotFound, "there is no image " + name,
              (near.empty() ? "" : "Did you mean " + near + "? ") + "`membrane image ls` lists the images.");
}

Result<StoredImage> stored_at(const std::string& path, const std::string& name) {
  MEMBRANE_ASSIGN(const auto image, Layer::open(path));
  struct stat status = {};
  if (fstat(image->fd(), &status) != 0) return refused_by_system("read", path);
  StoredImage stored{.name = name,
                     .path = path,
                     .size_bytes = image->file_bytes(),
                     .digest = std::string(image->digest()),
                     .made_s = status.st_mtim.tv_sec,
                     .config = {}};
  MEMBRANE_ASSIGN(stored.config, read_image_config(image->config()));
  return stored;
}

bool has_digest(const std::string& path, std::string_view digest) {
  const auto image = Layer::open(path);
  return image && (*image)->digest() == digest;
}

// A digest may consist of foreign bytes.
std::string path_of_removed(const std::string& path, std::string_view digest) {
  const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (digest.empty() || !std::ranges::all_of(digest, is_hex)) return "";
  return (fs::path(path).parent_path() / kRemoved / (std::string(digest) + std::string(kEnding))).string();
}

bool exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

// -- importing

class Import {
 public:
  explicit Import(std::shared_ptr<Spool> spool, std::string name)
      : spool_(std::move(spool)), name_(std::move(name)) {}

  Status read(const std::string& path) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (!fs::exists(status)) return fail(ErrorCode::kNotFound, "there is no file " + path);
    if (fs::is_directory(status)) return read_directory(path);
    if (const auto image = Layer::open(path)) return read_layer(*image);
    MEMBRANE_ASSIGN(const Blob archive, open_blob(path));
    MEMBRANE_ASSIGN(const bool is_image, is_image_archive(archive));
    if (!is_image) return apply_tar(tree_, archive, spool_);
    MEMBRANE_ASSIGN(const auto files, files_of_archive(archive, spool_));
    return read_files(*files);
  }

  Status write(const std::string& path) const {
    MEMBRANE_TRY(tree_.write(path, image_config_text(config_)));
    return {};
  }

 private:
  Status read_directory(const std::string& path) {
    const auto files = files_of_directory(path);
    if (is_oci(*files) || is_docker_directory(*files, path)) return read_files(*files);
    const std::optional<Owner> owner = geteuid() == 0 ? std::nullopt : std::optional<Owner>(Owner{});
    return apply_directory(tree_, path, "", spool_, owner);
  }

  // A file system may also have a manifest.json at its root.
  static bool is_docker_directory(const ImageFiles& files, const std::string& path) {
    return is_docker(files) && !exists(path + "/etc") && !exists(path + "/bin") && !exists(path + "/usr");
  }

  Status read_layer(const std::shared_ptr<const Layer>& image) {
    MEMBRANE_TRY(image->verify());
    MEMBRANE_ASSIGN(config_, read_image_config(image->config()));
    return tree_.load(image);
  }

  Status read_files(const ImageFiles& files) {
    if (!is_oci(files) && !is_docker(files))
      return fail(ErrorCode::kInvalidInput,
                  "this is not an image: it has no index.json and no manifest.json");
    MEMBRANE_ASSIGN(FoundImage found, is_oci(files) ? read_oci(files, name_) : read_docker(files, name_));
    config_ = std::move(found.config);
    for (const Blob& layer : found.layers) MEMBRANE_TRY(apply_tar(tree_, layer, spool_));
    return {};
  }

  std::shared_ptr<Spool> spool_;
  std::string name_;
  LayerTree tree_;
  ImageConfig config_;
};

}  // namespace

bool is_image_name(std::string_view name) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  const auto fits = [&](char c) { return is_plain(c) || c == '.' || c == '_' || c == '-' || c == ':'; };
  return !name.empty() && name.size() <= 128 && is_plain(name.front()) && std::ranges::all_of(name, fits);
}

Result<StoredImage> find_image(const std::string& name_or_path) {
  if (name_or_path.find('/') != name_or_path.npos) {
    if (!exists(name_or_path)) return not_there(name_or_path);
    std::string name = fs::path(name_or_path).filename().string();
    if (name.ends_with(kEnding)) name.resize(name.size() - kEnding.size());
    return stored_at(name_or_path, name);
  }
  MEMBRANE_TRY(check_name(name_or_path));
  for (const std::string& directory : directories()) {
    const std::string path = path_in(directory, name_or_path);
    if (!exists(path)) continue;
    MEMBRANE_TRY(check_closed(directory));
    return stored_at(path, name_or_path);
  }
  return not_there(name_or_path);
}

Result<std::vector<StoredImage>> list_images() {
  std::vector<StoredImage> images;
  for (const std::string& directory : directories()) {
    if (!check_closed(directory)) continue;
    std::error_code error;
    for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
      std::string name = at->path().filename().string();
      if (!name.ends_with(kEnding)) continue;
      name.resize(name.size() - kEnding.size());
      const bool is_known =
          std::ranges::any_of(images, [&](const StoredImage& each) { return each.name == name; });
      if (!is_image_name(name) || is_known) continue;
      if (auto image = stored_at(at->path().string(), name)) images.push_back(std::move(*image));
    }
  }
  std::ranges::sort(images, {}, &StoredImage::name);
  return images;
}

Status remove_image(const std::string& name) {
  MEMBRANE_TRY(check_name(name));
  const std::string directory = own_directory();
  if (directory.empty()) return not_there(name);
  const std::string path = path_in(directory, name);
  retire_image(path);
  if (unlink(path.c_str()) == 0) return {};
  if (errno == ENOENT || errno == ENOTDIR) return not_there(name);
  return refused_by_system("remove", path);
}

void retire_image(const std::string& path) {
  const auto image = Layer::open(path);
  if (!image) return;
  const std::string to = path_of_removed(path, (*image)->digest());
  const std::string directory = fs::path(to).parent_path().string();
  if (to.empty() || (!exists(directory) && !make_directory(directory))) return;
  // Where files have one name only, there is nothing to keep it by.
  if (link(path.c_str(), to.c_str()) != 0 && errno == EEXIST && !has_digest(to, (*image)->digest())) {
    unlink(to.c_str());
    static_cast<void>(link(path.c_str(), to.c_str()));
  }
}

bool may_be_image(const std::string& path) {
  return std::ranges::any_of(directories(), [&path](const std::string& directory) {
    if (!path.starts_with(directory + "/") || !path.ends_with(kEnding)) return false;
    const std::string_view name = std::string_view(path).substr(directory.size() + 1);
    return name.size() > kEnding.size() && is_image_name(name.substr(0, name.size() - kEnding.size()));
  });
}

std::string path_of_image(const std::string& path, std::string_view digest) {
  if (has_digest(path, digest)) return path;
  std::string removed = path_of_removed(path, digest);
  return !removed.empty() && has_digest(removed, digest) ? removed : path;
}

Result<PrunedImages> prune_images() {
  PrunedImages pruned;
  const std::string directory = own_directory() + "/" + kRemoved;
  std::error_code error;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    struct stat status = {};
    if (lstat(at->path().c_str(), &status) != 0 || S_ISDIR(status.st_mode)) continue;
    if (unlink(at->path().c_str()) != 0) return refused_by_system("remove", at->path().string());
    ++pruned.files;
    if (status.st_nlink == 1) pruned.bytes += static_cast<uint64_t>(status.st_blocks) * 512;
  }
  return pruned;
}

Result<std::string> path_of_new_image(const std::string& name) {
  MEMBRANE_TRY(check_name(name));
  const std::string directory = own_directory();
  if (directory.empty())
    return fail(ErrorCode::kInvalidArgument, "there is no directory for images",
                "Set HOME, XDG_DATA_HOME or MEMBRANE_IMAGES.");
  if (!exists(directory) && !make_directory(directory)) return refused_by_system("make", directory);
  MEMBRANE_TRY(check_closed(directory));
  return path_in(directory, name);
}

Result<StoredImage> import_image(const std::string& path, const std::string& name) {
  MEMBRANE_ASSIGN(const std::string to, path_of_new_image(name));
  MEMBRANE_ASSIGN(auto spool, Spool::create(own_directory()));
  Import import(std::move(spool), name);
  MEMBRANE_TRY(import.read(path));
  retire_image(to);
  MEMBRANE_TRY(import.write(to));
  return stored_at(to, name);
}

Status export_image(const std::string& name, const std::string& archive) {
  MEMBRANE_ASSIGN(const StoredImage stored, find_image(name));
  MEMBRANE_ASSIGN(const auto image, Layer::open(stored.path));
  LayerTree tree;
  MEMBRANE_TRY(tree.load(image));
  return export_tar(tree, archive);
}

}  // namespace membrane::linux
