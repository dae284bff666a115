// The stack of return addresses that a run has for its compiled frames.
//
// Threads: as for the run.
#include <sys/mman.h>

#include <algorithm>
#include <iterator>

#include "engine/code/numeric.h"
#include "engine/native/assembler.h"
#include "engine/native/runtime.h"
#include "engine/native/trampolines.h"

namespace membrane::engine::native {

namespace {
constexpr size_t kSignalBytes = 256u << 10;  // below the return addresses: a signal's handler runs there
constexpr size_t kPageBytes = 4096;
}  // namespace

NativeStack::NativeStack(uint32_t call_depth) {
  const size_t words = (uint64_t{call_depth} + 8) * sizeof(uint64_t);
  bytes = (kSignalBytes + words + kPageBytes - 1) & ~(kPageBytes - 1);
  void* const got =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) return;
  memory = got;
  const Trampolines& trampolines = Trampolines::instance();
  state.exit_fuel = trampolines.exit_fuel;
  state.exit_instance = trampolines.exit_instance;
  state.exit_helper = trampolines.exit_helper;
  state.exit_overflow = trampolines.exit_overflow;
  std::copy(std::begin(trampolines.exit_trap), std::end(trampolines.exit_trap), std::begin(state.exit_trap));
  const auto of = [](Real r, uint64_t f32, uint64_t f64) { return Constant{r == Real::kF32 ? f32 : f64}; };
  for (const Real r : {Real::kF32, Real::kF64}) {
    const auto i = static_cast<size_t>(r);
    state.canonical_nan[i] = of(r, numeric::kCanonicalNan32, numeric::kCanonicalNan64);
    state.sign_bit[i] = of(r, 0x80000000u, 0x8000000000000000u);
    state.magnitude[i] = of(r, 0x7FFFFFFFu, 0x7FFFFFFFFFFFFFFFu);
  }
  std::copy(std::begin(kVectorConstants), std::end(kVectorConstants), std::begin(state.vector_constants));
  state.top = reinterpret_cast<uint64_t*>(static_cast<uint8_t*>(memory) + bytes) - 2;
  state.depth_end = state.top - call_depth;
}

NativeStack::~NativeStack() {
  if (memory != nullptr) munmap(memory, bytes);
}

void NativeStack::give_back(size_t kept) {
  if (kept < bytes) madvise(memory, (bytes - kept) & ~(kPageBytes - 1), MADV_DONTNEED);
}

}  // namespace membrane::engine::native
