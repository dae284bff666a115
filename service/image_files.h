// Images in files `images/<sha256>`: written once, synced before put() returns, verified on every read.
//
// Threads: any.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "service/durable_files.h"
#include "service/images.h"

namespace membrane::service {

class ImageFiles final : public Images {
 public:
  // `files` is borrowed. Lists existing files, without a reference: keep() what is needed, then sweep().
  // Errors: those of Disk.
  static Result<std::unique_ptr<ImageFiles>> open(DurableFiles& files);

  Result<std::string> put(std::span<const uint8_t> bytes) override;
  Result<std::vector<uint8_t>> get(std::string_view hash) override;
  Status keep(std::string_view hash) override;
  void drop(std::string_view hash) override;
  void sweep() override;

 private:
  explicit ImageFiles(DurableFiles& files) : files_(files) {}

  DurableFiles& files_;
  std::mutex mutex_;                                         // guards what follows, and the removal of files
  std::map<std::string, uint64_t, std::less<>> references_;  // for each existing file
  std::map<std::string, uint64_t, std::less<>> being_written_;  // number of writers; none of these is removed
};

}  // namespace membrane::service
