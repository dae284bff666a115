// Arbitrary bytes as a snapshot, as they are and after a header whose checksum holds: read, instantiated,
// resumed with little fuel in each tier, and frozen again. No crash, no hang, no leak.

#include <cstring>

#include "engine/code/fuel.h"
#include "engine/freeze/snapshot.h"
#include "engine/testing/snapshot_testing.h"

namespace {

using namespace membrane::engine;

// What a fuzzer does not find by itself: the magic, the versions and the checksum.
std::vector<uint8_t> with_header(std::span<const uint8_t> data) {
  constexpr size_t kHeaderBytes = 40;
  std::vector<uint8_t> bytes(data.begin(), data.end());
  if (bytes.size() < kHeaderBytes) bytes.resize(kHeaderBytes);
  std::memcpy(bytes.data(), "MEMBSNAP", 8);
  const uint32_t versions[2] = {kNewestSnapshotVersion, kCostVersion};
  std::memcpy(bytes.data() + 8, versions, sizeof versions);
  seal(bytes);
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static_cast<void>(resume_a_little({data, size}, Tier::kInterpreter));
  const std::vector<uint8_t> sealed = with_header({data, size});
  for (const Tier tier : {Tier::kInterpreter, Tier::kCompiler, Tier::kAuto})
    if (!resume_a_little(sealed, tier)) break;  // refused by one, refused by all
  return 0;
}
