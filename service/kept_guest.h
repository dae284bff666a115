// A guest that does not run, as in a paused sandbox, a snapshot or a promoted template. Its contexts' bytes
// are images.
//
// Threads: pure; any thread may use the images.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "service/guest.h"
#include "service/images.h"

namespace membrane::service {

struct KeptImage {
  std::string context;        // "": the one that exists from the start
  std::string template_name;  // the base of the bytes
  std::string hash;           // in Images
  uint64_t size_bytes = 0;
  std::string seal_hash = {};  // of KeptContext::seal; "": none
};

struct KeptGuest {
  GuestSpec spec;  // secrets are not stored: the restorer provides them
  std::vector<KeptImage> images;

  [[nodiscard]] uint64_t size_bytes() const;
};

// Takes one reference to each image. Errors: kNoSpace, kUnavailable; then none is taken.
Answer<KeptGuest> put_images(Images& images, GuestSpec spec, const std::vector<KeptContext>& contexts);
// The same for a guest without receipts: its past belongs to another.
[[nodiscard]] KeptGuest without_seals(KeptGuest kept);
// Adds another holder. Errors: kNotFound.
Answer<KeptGuest> share_images(Images& images, const KeptGuest& kept);
// The argument for Guests::restore(). Errors: kNotFound; kUnavailable for a damaged image.
Answer<std::vector<KeptContext>> get_images(Images& images, const KeptGuest& kept);
void drop_images(Images& images, const KeptGuest& kept);

}  // namespace membrane::service
