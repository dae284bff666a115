// The bytes of paused sandboxes and snapshots, stored by content: equal bytes have one name and are stored
// once.
//
// put() returns with one reference; keep() adds one, and drop() removes one. With the last one the bytes may
// be deleted. References are not on disk: after a restart, take one with keep() for each row of state, then
// call sweep().
//
// Threads: any.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace membrane::service {

class Images {
 public:
  virtual ~Images() = default;

  // When it returns, the bytes are stored (a durable store: even after a power cut). Returns their name:
  // SHA-256 in hexadecimal. Errors: kUnavailable without libcrypto; kInternal, kExhausted for a disk that is
  // broken or full, and then nothing was stored.
  virtual Result<std::string> put(std::span<const uint8_t> bytes) = 0;
  // Errors: kNotFound; kInvalidInput when the stored bytes have another hash than their name.
  virtual Result<std::vector<uint8_t>> get(std::string_view hash) = 0;
  // Adds a reference. Errors: kNotFound.
  virtual Status keep(std::string_view hash) = 0;
  // Removes a reference; an unknown name is not an error.
  virtual void drop(std::string_view hash) = 0;
  // Deletes everything without references.
  virtual void sweep() = 0;
};

// In this process's memory, and gone with it.
std::unique_ptr<Images> images_in_memory();

}  // namespace membrane::service
