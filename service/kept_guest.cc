#include "service/kept_guest.h"

namespace membrane::service {

uint64_t KeptGuest::size_bytes() const {
  uint64_t bytes = 0;
  for (const KeptImage& image : images) bytes += image.size_bytes;
  return bytes;
}

Answer<KeptGuest> put_images(Images& images, GuestSpec spec, const std::vector<KeptContext>& contexts) {
  KeptGuest kept{std::move(spec), {}};
  kept.spec.secrets = nullptr;
  for (const KeptContext& context : contexts) {
    auto hash = images.put(context.bytes);
    if (!hash) {
      drop_images(images, kept);
      return std::unexpected(disk_error(hash.error()));
    }
    kept.images.push_back({context.id, context.template_name, *std::move(hash), context.bytes.size()});
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
