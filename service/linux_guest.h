// Guests that are Linux sandboxes: a turn is a process in one, and files stay.
//
// Threads: as Guest and Guests.
#pragma once

#include <memory>
#include <string>

#include "linux/image/store.h"
#include "linux/sandbox/live_computer.h"
#include "service/guest.h"

namespace membrane::service {

// What images there are.
class ImageCatalog {
 public:
  virtual ~ImageCatalog() = default;
  // "" for the usual one. Errors: those of linux::find_image().
  virtual Result<linux::StoredImage> find(const std::string& name) = 0;
  virtual std::vector<linux::StoredImage> list() = 0;
};
// Those of linux/image/store.h, by name alone: paths of files are not for clients.
std::unique_ptr<ImageCatalog> stored_images();

// Guests of `others`, and Linux ones by the templates "linux" and "linux:IMAGE". `source` is null where this machine has none: then
// they are refused, since `why_none`.
std::unique_ptr<Guests> with_linux_guests(std::unique_ptr<Guests> others,
                                          std::unique_ptr<linux::ComputerSource> source,
                                          std::unique_ptr<ImageCatalog> images, const std::string& why_none);

}  // namespace membrane::service
