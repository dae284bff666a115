#include "packages/layer.h"

#define XXH_INLINE_ALL
#include <sys/stat.h>
#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "base/number_reader.h"
#include "base/private_file.h"
#include "base/sealed_file.h"

namespace membrane::packages {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "membrane layer 1\n";
constexpr size_t kHeadBytes = kMagic.size() + 2 * sizeof(uint64_t);
constexpr size_t kMostIndexBytes = 64u << 20;

std::unexpected<Error> damaged(const std::string& what) {
  return fail(ErrorCode::kInvalidInput, "the layer of packages is damaged: " + what,
              "Remove it: it is then built again.");
}

std::string_view text_of(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
std::span<const uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// Removes and returns the text before the next `end`, and removes `end`. Nothing when there is none.
std::optional<std::string_view> take_until(std::string_view& text, char end) {
  const size_t at = text.find(end);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view taken = text.substr(0, at);
  text.remove_prefix(at + 1);
  return taken;
}

std::optional<uint64_t> number_of(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

bool is_plain_path(std::string_view path) {
  const auto components = wasi::components_of("/" + std::string(path));
  if (!components || components->empty()) return false;
  std::string whole;
  for (const std::string& component : *components) whole += (whole.empty() ? "" : "/") + component;
  return whole == path && !path.contains('\n');
}

struct Found {
  std::string path;
  uint64_t bytes = 0;
};

Result<std::vector<Found>> files_below(const std::string& directory) {
  std::vector<Found> files;
  uint64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    if (at->is_directory(error) && !at->is_symlink(error)) continue;
    Found found{at->path().lexically_relative(directory).string(), 0};
    if (at->is_symlink(error) || !at->is_regular_file(error))
      return fail(ErrorCode::kInvalidInput, "a package has a link or a device: " + found.path, "");
    if (!is_plain_path(found.path))
      return fail(ErrorCode::kInvalidInput,
                  "a package has a file whose path is not valid in a program: " + found.path, "");
    found.bytes = at->file_size(error);
    bytes += found.bytes;
    files.push_back(std::move(found));
    if (files.size() > kMostLayerFiles || bytes > kMostLayerBytes)
      return fail(ErrorCode::kExhausted,
                  "the packages have more than " + std::to_string(kMostLayerFiles) + " files or " +
                      std::to_string(kMostLayerBytes >> 20) + " MiB",
                  "Request fewer packages.");
  }
  if (error) return fail(ErrorCode::kUnavailable, "cannot read " + directory + ": " + error.message(), "");
  std::ranges::sort(files, {}, &Found::path);
  return files;
}

}  // namespace

Result<std::vector<LayerFile>> read_layer_index(std::string_view text, std::string_view key,
                                                uint64_t content_bytes) {
  const auto key_line = take_until(text, '\n');
  if (!key_line || *key_line != "key " + std::string(key)) return damaged("it belongs to other packages");
  std::vector<LayerFile> files;
  uint64_t offset = 0;
  while (!text.empty()) {
    const auto line = take_until(text, '\n');
    if (!line || !line->starts_with("file ") || files.size() == kMostLayerFiles) return damaged("its index");
    std::string_view rest = line->substr(5);
    const auto bytes = take_until(rest, ' ').and_then(number_of);
    if (!bytes || *bytes > content_bytes - offset || !is_plain_path(rest)) return damaged("its index");
    files.push_back({rest, offset, *bytes});
    offset += *bytes;
  }
  if (offset != content_bytes) return damaged("its length");
  return files;
}

Status write_layer(const std::string& path, std::string_view key, const std::string& directory) {
  MEMBRANE_ASSIGN(const std::vector<Found> files, files_below(directory));
  std::string index = "key " + std::string(key) + "\n";
  for (const Found& file : files) index += "file " + std::to_string(file.bytes) + " " + file.path + "\n";
  MEMBRANE_ASSIGN(NewFile layer, NewFile::create(path));
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> hash(XXH3_createState(), XXH3_freeState);
  XXH3_64bits_reset(hash.get());
  uint64_t at = kHeadBytes;
  const auto add = [&](std::span<const uint8_t> bytes) -> Status {
    XXH3_64bits_update(hash.get(), bytes.data(), bytes.size());
    MEMBRANE_TRY(layer.write(at, bytes));
    at += bytes.size();
    return {};
  };
  MEMBRANE_TRY(add(bytes_of(index)));
  for (const Found& found : files) {
    const OpenedFile file(directory + "/" + found.path);
    const FileMapping mapping(file.number(), 0, file.usable() ? file.bytes() : 0);
    if (!file.usable() || mapping.bytes().size() != found.bytes)
      return fail(ErrorCode::kUnavailable, "cannot read " + directory + "/" + found.path, "Try again.");
    MEMBRANE_TRY(add(mapping.bytes()));
  }
  std::string head(kMagic);
  for (const uint64_t number :
       {static_cast<uint64_t>(index.size()), static_cast<uint64_t>(XXH3_64bits_digest(hash.get()))})
    for (unsigned shift = 0; shift < 64; shift += 8) head += static_cast<char>(number >> shift);
  MEMBRANE_TRY(layer.write(0, bytes_of(head)));
  return layer.publish();
}

Result<Layer> Layer::open(const std::string& path, std::string_view key) {
  const int64_t now_ns = real_time_ns();
  const PrivateFile file(path);
  struct stat status{};
  if (!file.usable() || fstat(file.number(), &status) != 0)
    return fail(ErrorCode::kNotFound, "there is no layer " + path, "");
  Layer layer;
  layer.mapping_ = std::make_shared<const FileMapping>(file.number(), 0, file.bytes());
  const std::string_view all = text_of(layer.mapping_->bytes());
  if (all.size() < kHeadBytes || !all.starts_with(kMagic)) return damaged("its head");
  NumberReader head(layer.mapping_->bytes().subspan(kMagic.size(), 2 * sizeof(uint64_t)));
  const auto index_bytes = head.number<uint64_t>(), checksum = head.number<uint64_t>();
  const std::string_view rest = all.substr(kHeadBytes);
  if (index_bytes > std::min<uint64_t>(rest.size(), kMostIndexBytes)) return damaged("its head");
  if (!is_sealed(path, file.number())) {
    if (XXH3_64bits(rest.data(), rest.size()) != checksum) return damaged("its bytes");
    static_cast<void>(seal(path, file.number(), status, now_ns));
  }
  touch_seal(path);
  MEMBRANE_ASSIGN(layer.files_,
                  read_layer_index(rest.substr(0, index_bytes), key, rest.size() - index_bytes));
  for (LayerFile& each : layer.files_) each.offset += kHeadBytes + index_bytes;
  return layer;
}

std::vector<wasi::Layer> Layer::files(std::string_view guest) const {
  std::vector<wasi::Layer> all;
  all.reserve(files_.size());
  for (const LayerFile& file : files_)
    all.push_back({.path = std::string(guest) + "/" + std::string(file.path),
                   .bytes = mapping_->bytes().subspan(file.offset, file.bytes),
                   .keep = mapping_});
  return all;
}

}  // namespace membrane::packages
