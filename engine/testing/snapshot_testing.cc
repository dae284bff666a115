#include "engine/testing/snapshot_testing.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "engine/freeze/snapshot.h"

namespace membrane::engine {
namespace {

constexpr uint32_t kOldestVersion = 2;
constexpr size_t kHeaderBytes = 40, kVersionAt = 8, kBodyBytesAt = 16, kChecksumAt = 24,
                 kSectionHeadBytes = 12;

std::optional<Extern> give_zero(Store& store, const wasm::Module& module, const wasm::Import& import) {
  if (import.kind != wasm::ExternKind::kFunc) return std::nullopt;
  // Zero is null, which is not of every type.
  if (!std::ranges::all_of(module.type_of_function(import.index).results, wasm::is_defaultable))
    return std::nullopt;
  const auto zero = [](HostCall& call) {
    if (!call.charge(10)) return HostAction::kOutOfFuel;
    std::ranges::fill(call.results, 0);
    return HostAction::kContinue;
  };
  return Extern{wasm::ExternKind::kFunc, store.add_host_function(module.type_of_function(import.index), zero),
                nullptr, nullptr, nullptr};
}

}  // namespace

std::span<const uint8_t> section_of(std::span<const uint8_t> snapshot, uint32_t section) {
  for (size_t at = kHeaderBytes; at + kSectionHeadBytes <= snapshot.size();) {
    uint32_t number = 0;
    uint64_t size = 0;
    std::memcpy(&number, snapshot.data() + at, sizeof number);
    std::memcpy(&size, snapshot.data() + at + sizeof number, sizeof size);
    at += kSectionHeadBytes;
    if (size > snapshot.size() - at) return {};
    if (number == section) return snapshot.subspan(at, size);
    at += size;
  }
  return {};
}

void seal(std::vector<uint8_t>& snapshot) {
  if (snapshot.size() < kHeaderBytes) return;
  const uint64_t body = snapshot.size() - kHeaderBytes;
  uint32_t version = 0;
  std::memcpy(&version, snapshot.data() + kVersionAt, sizeof version);
  const XXH128_hash_t hash =
      XXH3_128bits_withSeed(snapshot.data() + kHeaderBytes, body, version - kOldestVersion);
  std::memcpy(snapshot.data() + kBodyBytesAt, &body, sizeof body);
  std::memcpy(snapshot.data() + kChecksumAt, &hash.low64, sizeof hash.low64);
  std::memcpy(snapshot.data() + kChecksumAt + sizeof hash.low64, &hash.high64, sizeof hash.high64);
}

bool resume_a_little(std::span<const uint8_t> bytes, Tier tier) {
  const auto snapshot = Snapshot::read(bytes, tier);
  if (!snapshot) return false;
  Store store;
  InstanceLimits limits;
  limits.memory_bytes = 4u << 20;
  limits.table_elements = 100'000;
  const auto instance = snapshot->instantiate(
      store,
      [&](const wasm::Module& module, const wasm::Import& import) {
        return give_zero(store, module, import);
      },
      limits);
  if (!instance) return true;
  ExecutionLimits small;
  small.call_depth = 1'000;
  Execution run(small);
  if (!snapshot->resume_in(run, **instance)) return true;
  for (int i = 0; i < 4 && run.state() == RunState::kOutOfFuel; ++i) {
    run.add_fuel(1'000);
    run.resume();
  }
  if (run.state() != RunState::kOutOfFuel) return true;
  const auto again = freeze(run, **instance);
  if (again && Snapshot::read(*again, tier)) return true;
  std::fprintf(stderr, "what was thawed does not freeze: %s\n",
               again ? Snapshot::read(*again, tier).error().message.c_str() : again.error().message.c_str());
  std::abort();
}

}  // namespace membrane::engine
