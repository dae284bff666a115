// The bytes of paused sandboxes and snapshots, kept by what they are: the same bytes have the same name and are kept once.
//
// Who puts holds one reference; keep() is one more, and drop() is one less. At the last one the bytes may go. References
// are not on the disk: who starts again takes one with keep() for each row of its own state, then calls sweep().
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

  // When it returns, the bytes are there to stay (a durable one: after a power cut, too). Returns their name: SHA-256 in
  // hexadecimal. Errors: kUnavailable without libcrypto; kInternal, kExhausted for a disk that is broken or full, and then
  // nothing was kept.
  virtual Result<std::string> put(std::span<const uint8_t> bytes) = 0;
  // Errors: kNotFound; kInvalidInput when what is there has another hash than its name.
  virtual Result<std::vector<uint8_t>> get(std::string_view hash) = 0;
  // One more reference. Errors: kNotFound.
  virtual Status keep(std::string_view hash) = 0;
  // One reference less; a name that there is not is no error.
  virtual void drop(std::string_view hash) = 0;
  // What nobody refers to goes.
  virtual void sweep() = 0;
};

// In this process's memory, gone with it.
std::unique_ptr<Images> images_in_memory();

}  // namespace membrane::service
