// Making guests that are Linux sandboxes, over the images of this machine.
//
// Threads: as for Guests.
#pragma once

#include <memory>
#include <string>

#include "linux/image/store.h"
#include "linux/sandbox/live_computer.h"
#include "service/guest.h"

namespace membrane::service {

// The available images.
class ImageCatalog {
 public:
  virtual ~ImageCatalog() = default;
  // "" for the default image. Errors: those of linux::find_image().
  virtual Result<linux::StoredImage> find(const std::string& name) = 0;
  virtual std::vector<linux::StoredImage> list() = 0;
};
// The images of linux/image/store.h, by name only: clients may not pass paths of files.
std::unique_ptr<ImageCatalog> stored_images();

// Guests of `others`, and Linux guests for the templates "linux" and "linux:IMAGE". `source` is null if this
// machine cannot run them: then they are refused with `why_none`.
std::unique_ptr<Guests> with_linux_guests(std::unique_ptr<Guests> others,
                                          std::unique_ptr<linux::ComputerSource> source,
                                          std::unique_ptr<ImageCatalog> images, const std::string& why_none);

}  // namespace membrane::service
