#include "service/image_files.h"

#include <algorithm>

#include "base/sha256.h"

namespace membrane::service {
namespace {

const std::string kDirectory = "images";

std::string path_of(std::string_view hash) { return kDirectory + "/" + std::string(hash); }

std::unexpected<Error> no_image(std::string_view hash) {
  return fail(ErrorCode::kNotFound, "there is no image " + std::string(hash));
}

}  // namespace

Result<std::unique_ptr<ImageFiles>> ImageFiles::open(DurableFiles& files) {
  MEMBRANE_TRY(files.make_directory(kDirectory));
  MEMBRANE_TRY(files.clean(kDirectory));
  MEMBRANE_ASSIGN(const std::vector<std::string> names, files.list(kDirectory));
  std::unique_ptr<ImageFiles> images(new ImageFiles(files));
  for (const std::string& name : names)
    if (is_sha256_hex(name)) images->references_.emplace(name, 0);
  return images;
}

Result<std::string> ImageFiles::put(std::span<const uint8_t> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  MEMBRANE_ASSIGN(std::string hash, sha256_hex(text));
  {
    const std::lock_guard lock(mutex_);
    const auto found = references_.find(hash);
    // A file without references may belong to a service that ended before it was complete: it is written
    // again.
    if (found != references_.end() && found->second > 0) {
      ++found->second;
      return hash;
    }
    ++being_written_[hash];
  }
  const Status written = files_.write(path_of(hash), text);  // takes milliseconds
  const std::lock_guard lock(mutex_);
  if (--being_written_[hash] == 0) being_written_.erase(hash);
  if (!written) return std::unexpected(written.error());
  ++references_[hash];
  return hash;
}

Result<std::vector<uint8_t>> ImageFiles::get(std::string_view hash) {
  if (!is_sha256_hex(hash)) return no_image(hash);
  const auto bytes = files_.read(path_of(hash));
  if (!bytes && bytes.error().code == ErrorCode::kNotFound) return no_image(hash);
  if (!bytes) return std::unexpected(bytes.error());
  MEMBRANE_ASSIGN(const std::string actual, sha256_hex(*bytes));
  if (actual != hash)
    return fail(ErrorCode::kInvalidInput, "the image " + std::string(hash) + " is damaged on the disk",
                "Its content is lost; restore the file from a backup.");
  return std::vector<uint8_t>(bytes->begin(), bytes->end());
}

Status ImageFiles::keep(std::string_view hash) {
  const std::lock_guard lock(mutex_);
  const auto found = references_.find(hash);
  if (found == references_.end()) return no_image(hash);
  ++found->second;
  return {};
}

void ImageFiles::drop(std::string_view hash) {
  const std::lock_guard lock(mutex_);
  const auto found = references_.find(hash);
  if (found == references_.end() || found->second == 0 || --found->second > 0) return;
  if (being_written_.contains(hash)) return;
  if (files_.remove(path_of(hash))) references_.erase(found);  // else sweep() tries again
}

void ImageFiles::sweep() {
  const std::lock_guard lock(mutex_);
  std::erase_if(references_, [&](const auto& image) {
    return image.second == 0 && !being_written_.contains(image.first) &&
           files_.remove(path_of(image.first)).has_value();
  });
}

}  // namespace membrane::service
