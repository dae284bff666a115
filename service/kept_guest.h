// A guest that does not run: what a paused sandbox, a snapshot and a promoted template are. Its contexts' bytes are images.
//
// Threads: pure; the images are any thread's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "service/guest.h"
#include "service/images.h"

namespace membrane::service {

struct KeptImage {
  std::string context;        // "": the one that exists from the start
  std::string template_name;  // that the bytes differ from
  std::string hash;           // in Images
  uint64_t size_bytes = 0;
  std::string seal_hash = {};  // of KeptContext::seal; "": none
};

struct KeptGuest {
  GuestSpec spec;  // its secrets are not kept: who restores it says what there is
  std::vector<KeptImage> images;

  [[nodiscard]] uint64_t size_bytes() const;
};

// Holds one reference to each image. Errors: kNoSpace, kUnavailable; then nothing is held.
Answer<KeptGuest> put_images(Images& images, GuestSpec spec, const std::vector<KeptContext>& contexts);
// The same for a guest of which no receipts are made: its past is another's.
[[nodiscard]] KeptGuest without_seals(KeptGuest kept);
// Another holder of the same. Errors: kNotFound.
Answer<KeptGuest> share_images(Images& images, const KeptGuest& kept);
// What Guests::restore() takes. Errors: kNotFound; kUnavailable for an image that is damaged.
Answer<std::vector<KeptContext>> get_images(Images& images, const KeptGuest& kept);
void drop_images(Images& images, const KeptGuest& kept);

}  // namespace membrane::service
