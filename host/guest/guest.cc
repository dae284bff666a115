#include "host/guest/guest.h"

#include <algorithm>
#include <cstring>

#include "base/text.h"

namespace membrane::host {
namespace {

constexpr uint64_t kLengthBytes = 4;
constexpr uint64_t kAddressSpaceBytes = 1ull << 32;

}  // namespace

HostResult<std::string_view> Guest::read_string(uint32_t pointer) {
  const std::span<uint8_t> bytes = memory();
  // In 64 bits, so that no sum wraps around.
  if (uint64_t{pointer} + kLengthBytes > bytes.size())
    return refuse(Errno::kFault, "the pointer " + std::to_string(pointer) + " lies outside the memory of " +
                                     count_of(bytes.size(), "byte"));
  const uint8_t* at = bytes.data() + pointer;
  const uint32_t length = at[0] | at[1] << 8 | at[2] << 16 | static_cast<uint32_t>(at[3]) << 24;
  if (uint64_t{pointer} + kLengthBytes + length > bytes.size())
    return refuse(Errno::kFault, "the string at " + std::to_string(pointer) + " has the length " +
                                     std::to_string(length) + " and would end outside the memory of " +
                                     count_of(bytes.size(), "byte") +
                                     "; a string is its length as a u32, then its bytes");
  return std::string_view(reinterpret_cast<const char*>(at + kLengthBytes), length);
}

HostResult<uint32_t> Guest::write_string(std::string_view bytes) {
  if (bytes.size() > kAddressSpaceBytes - kLengthBytes)
    return refuse(Errno::kNoMemory, "the result is larger than a memory");
  // Growing may move the memory: a source inside it is located again by its offset.
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
  const auto base = reinterpret_cast<uintptr_t>(memory().data());
  const bool inside = begin >= base && begin - base < memory().size();

  const auto pointer = allocate(kLengthBytes + bytes.size());
  if (!pointer) return pointer;
  uint8_t* at = memory().data() + *pointer;
  const auto length = static_cast<uint32_t>(bytes.size());
  for (unsigned i = 0; i < kLengthBytes; ++i) at[i] = static_cast<uint8_t>(length >> (8 * i));
  const void* from = inside ? static_cast<const void*>(memory().data() + (begin - base)) : bytes.data();
  if (!bytes.empty()) std::memmove(at + kLengthBytes, from, bytes.size());
  return pointer;
}

HostResult<uint32_t> BumpHeap::allocate(Space& space, uint64_t bytes) {
  if (next_ > kAddressSpaceBytes || bytes > kAddressSpaceBytes - next_ ||
      (next_ + bytes > space.size_bytes() && !space.grow_to(next_ + bytes)))
    return refuse(Errno::kNoMemory,
                  "the program's memory has no room for a result of " + count_of(bytes, "byte"));
  const auto address = static_cast<uint32_t>(next_);
  next_ = align(next_ + std::max<uint64_t>(bytes, 1));
  return address;
}

}  // namespace membrane::host
