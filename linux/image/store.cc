#include "linux/image/store.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/json.h"
#include "linux/image/layer.h"
#include "linux/image/tar.h"

namespace membrane::linux {

namespace {

namespace fs = std::filesystem;
constexpr size_t kMostNameBytes = 128, kMostConfigBytes = 1u << 20;
constexpr std::string_view kEnding = ".image";

Result<fs::path> store_directory() {
  if (const char* const named = std::getenv("MEMBRANE_IMAGES"); named != nullptr && *named != '\0') return fs::path(named);
  if (const char* const data = std::getenv("XDG_DATA_HOME"); data != nullptr && *data == '/')
    return fs::path(data) / "membrane/images";
  if (const char* const home = std::getenv("HOME"); home != nullptr && *home == '/')
    return fs::path(home) / ".local/share/membrane/images";
  return fail(ErrorCode::kNotFound, "there is no directory for images", "Set MEMBRANE_IMAGES or HOME.");
}

bool is_name(std::string_view name) {
  const auto is_fine = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-' || c == ':';
  };
  return !name.empty() && name.size() <= kMostNameBytes && name[0] != '.' && name[0] != '-' && std::ranges::all_of(name, is_fine);
}

Result<fs::path> path_of(const std::string& name) {
  if (!is_name(name))
    return fail(ErrorCode::kInvalidArgument, "\"" + name.substr(0, kMostNameBytes) + "\" cannot name an image",
                "Use letters, digits and . _ - : in it.");
  MEMBRANE_ASSIGN(const fs::path directory, store_directory());
  return directory / (name + std::string(kEnding));
}

std::vector<std::string> texts_of(const nlohmann::json& json, const char* name) {
  std::vector<std::string> texts;
  const auto found = json.find(name);
  if (found == json.end() || !found->is_array()) return texts;
  for (const auto& each : *found)
    if (each.is_string()) texts.push_back(each.get<std::string>());
  return texts;
}

// What is not there, or cannot be read, says nothing.
ImageConfig read_config(const fs::path& image) {
  std::ifstream file(fs::path(image).replace_extension(".json"), std::ios::binary);
  std::string text(kMostConfigBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  const auto json = read_json(text, "the image's configuration");
  if (!json || !json->is_object()) return {};
  const auto word = [&json](const char* name) {
    const auto found = json->find(name);
    return found != json->end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  return {.environment = texts_of(*json, "Env"),
          .entrypoint = texts_of(*json, "Entrypoint"),
          .command = texts_of(*json, "Cmd"),
          .directory = word("WorkingDir"),
          .user = word("User")};
}

StoredImage stored_at(const fs::path& path, std::string name) {
  std::error_code error;
  return {.name = std::move(name), .path = path.string(), .size_bytes = fs::file_size(path, error), .config = read_config(path)};
}

}  // namespace

Result<StoredImage> find_image(const std::string& name_or_path) {
  std::error_code error;
  if (name_or_path.find('/') != std::string::npos) {
    if (fs::is_regular_file(name_or_path, error)) return stored_at(name_or_path, name_or_path);
    return fail(ErrorCode::kNotFound, "there is no image file " + name_or_path);
  }
  MEMBRANE_ASSIGN(const fs::path path, path_of(name_or_path));
  if (fs::is_regular_file(path, error)) return stored_at(path, name_or_path);
  return fail(ErrorCode::kNotFound, "there is no image \"" + name_or_path + "\"",
              "`membrane image ls` lists those that there are. `make images` makes one of Debian, called debian; `membrane image "
              "import FILE.tar --tag NAME` takes any file system.");
}

Result<std::vector<StoredImage>> list_images() {
  MEMBRANE_ASSIGN(const fs::path directory, store_directory());
  std::vector<StoredImage> images;
  std::error_code error;
  for (fs::directory_iterator each(directory, error), end; !error && each != end; each.increment(error)) {
    const std::string file = each->path().filename().string();
    if (file.ends_with(kEnding) && is_name(file)) images.push_back(stored_at(each->path(), file.substr(0, file.size() - kEnding.size())));
  }
  std::ranges::sort(images, {}, &StoredImage::name);
  return images;
}

Status remove_image(const std::string& name) {
  MEMBRANE_ASSIGN(const StoredImage image, find_image(name));
  MEMBRANE_ASSIGN(const fs::path path, path_of(name));
  std::error_code error;
  fs::remove(path, error);
  if (error) return fail(ErrorCode::kUnavailable, "the image cannot be removed: " + error.message());
  fs::remove(fs::path(path).replace_extension(".json"), error);
  return {};
}

Result<StoredImage> import_image(const std::string& source, const std::string& name) {
  MEMBRANE_ASSIGN(const fs::path path, path_of(name));
  std::error_code error;
  if (!fs::exists(source, error)) return fail(ErrorCode::kNotFound, "there is no file " + source);
  fs::create_directories(path.parent_path(), error);
  if (error) return fail(ErrorCode::kUnavailable, "there is no place for images: " + error.message());
  if (fs::is_directory(source, error))
    return fail(ErrorCode::kUnsupported, source + " is a directory",
                "Make a tarball of it: tar -C " + source + " -cf files.tar .");
  MEMBRANE_TRY(import_tar(source, path.string()));
  fs::remove(fs::path(path).replace_extension(".json"), error);  // of one that had the name before
  return stored_at(path, name);
}

Status export_image(const std::string& name, const std::string& archive) {
  MEMBRANE_ASSIGN(const StoredImage image, find_image(name));
  MEMBRANE_ASSIGN(const auto layer, Layer::open(image.path));
  return export_tar(*layer, archive);
}

}  // namespace membrane::linux
