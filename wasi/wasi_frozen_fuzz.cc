// Bytes that claim to be a frozen state: refused, or a state with a consistent tree, which freezes into bytes that
// thaw again.
#include <cstdlib>

#include "wasi/state.h"

using namespace membrane::wasi;

namespace {

Config config() {
  static const std::shared_ptr<const Image> image = [] {
    static constexpr uint8_t kBytes[] = {'t', 'e', 'x', 't'};
    return Image::make({{.path = "/lib/a", .bytes = kBytes}, {.path = "/lib/d/b", .bytes = kBytes}}).value();
  }();
  Config config;
  config.image = image;
  config.quota = {.bytes = 1 << 20, .files = 1'000};
  return config;
}

// The corpus does not depend on the image's digest: it is inserted here.
std::vector<uint8_t> with_digest(const uint8_t* data, size_t size) {
  constexpr size_t kDigestAt = 16, kDigestBytes = 64;
  std::vector<uint8_t> bytes(data, data + size);
  if (size < kDigestAt + kDigestBytes) return bytes;
  static const std::vector<uint8_t> fitting = System::create(config()).value()->freeze().value();
  std::copy_n(fitting.begin(), kDigestAt + kDigestBytes, bytes.begin());
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto thawed = System::thaw(with_digest(data, size), config());
  if (!thawed) return 0;
  State& state = (*thawed)->state();
  std::vector<Inode> open;
  for (const auto& [number, descriptor] : state.descriptors.all()) open.push_back(descriptor.inode());
  if (!state.files->broken_invariant(open).empty()) std::abort();
  const auto again = (*thawed)->freeze();
  if (!again || !System::thaw(*again, config())) std::abort();
  return 0;
}
