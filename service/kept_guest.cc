#include "service/kept_guest.h"

#include <sys/stat.h>

#include <cerrno>

#include "base/private_file.h"
#include "linux/fs/page_file.h"
#include "linux/platform/trap/host_file.h"

namespace membrane::service {

uint64_t KeptGuest::size_bytes() const {
  uint64_t bytes = 0;
  for (const KeptImage& image : images) bytes += image.size_bytes;
  return bytes;
}

namespace {

// The file is mapped, so that the service has no copy of it.
Result<std::string> put_image(Images& images, const KeptContext& context) {
  if (context.file == nullptr) return images.put(context.bytes);
  const auto pages = linux::PageFile::map(context.file->number());
  if (!pages) {
    errno = pages.error();
    return refused_by_system("map", "a saved sandbox");
  }
  const auto bytes = (*pages)->bytes();
  return images.put({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

}  // namespace

uint64_t KeptContext::size_bytes() const {
  struct stat facts = {};
  if (file != nullptr && fstat(file->number(), &facts) == 0) return static_cast<uint64_t>(facts.st_size);
  return bytes.size();
}

Answer<KeptGuest> put_images(Images& images, GuestSpec spec, const std::vector<KeptContext>& contexts) {
  KeptGuest kept{std::move(spec), {}};
  kept.spec.secrets = nullptr;
  for (const KeptContext& context : contexts) {
    auto hash = put_image(images, context);
    if (!hash) {
      drop_images(images, kept);
      return std::unexpected(disk_error(hash.error()));
    }
    kept.images.push_back({context.id, context.template_name, *std::move(hash), context.size_bytes()});
    if (context.seal.empty()) continue;
    auto seal = images.put({reinterpret_cast<const uint8_t*>(context.seal.data()), context.seal.size()});
    if (!seal) {
      drop_images(images, kept);
      return std::unexpected(disk_error(seal.error()));
    }
    kept.images.back().seal_hash = *std::move(seal);
  }
  return kept;
}

KeptGuest without_seals(KeptGuest kept) {
  kept.spec.seals = false;
  for (KeptImage& image : kept.images) image.seal_hash.clear();
  return kept;
}

Answer<KeptGuest> share_images(Images& images, const KeptGuest& kept) {
  KeptGuest shared{kept.spec, {}};
  for (const KeptImage& image : kept.images) {
    for (const std::string& hash : {image.hash, image.seal_hash}) {
      if (hash.empty()) continue;
      if (const Status held = images.keep(hash); !held) {
        if (hash == image.seal_hash) images.drop(image.hash);
        drop_images(images, shared);
        return std::unexpected(disk_error(held.error()));
      }
    }
    shared.images.push_back(image);
  }
  return shared;
}

Answer<std::vector<KeptContext>> get_images(Images& images, const KeptGuest& kept) {
  std::vector<KeptContext> contexts;
  for (const KeptImage& image : kept.images) {
    auto bytes = images.get(image.hash);
    if (!bytes) return std::unexpected(disk_error(bytes.error()));
    contexts.push_back({image.context, image.template_name, *std::move(bytes), {}});
    if (image.seal_hash.empty()) continue;
    const auto seal = images.get(image.seal_hash);
    if (!seal) return std::unexpected(disk_error(seal.error()));
    contexts.back().seal.assign(seal->begin(), seal->end());
  }
  return contexts;
}

void drop_images(Images& images, const KeptGuest& kept) {
  for (const KeptImage& image : kept.images) {
    images.drop(image.hash);
    if (!image.seal_hash.empty()) images.drop(image.seal_hash);
  }
}

}  // namespace membrane::service
