// random: numbers from a stream that the broker seeds once.
//
// One journaled call returns 32 bytes; everything else is computed from them, so that a program can draw a million
// numbers without a million host calls, and a replay draws the same.
#include <algorithm>

#include "base/hex.h"
#include "host/call.h"
#include "host/capabilities/all.h"

namespace membrane::host {
namespace {

constexpr int32_t kMaxBytes = 1 << 20;

HostResult<RandomStream*> stream_of(Call& call) {
  if (!call.state.random) {
    MEMBRANE_ASSIGN(const std::string seed, call.broker.random_bytes(32));
    RandomStream::Key key{};
    if (seed.size() != key.size()) return refuse(Errno::kHost, "the source of randomness gave too few bytes");
    std::copy(seed.begin(), seed.end(), key.begin());
    call.state.random.emplace(key);
  }
  return &*call.state.random;
}

HostResult<Value> i32(Call& call) {
  MEMBRANE_ASSIGN(RandomStream* const stream, stream_of(call));
  return static_cast<int32_t>(stream->next_u32());
}

HostResult<Value> i64(Call& call) {
  MEMBRANE_ASSIGN(RandomStream* const stream, stream_of(call));
  return static_cast<int64_t>(stream->next_u64());
}

// 53 bits: every value is a multiple of 2^-53.
HostResult<Value> f64(Call& call) {
  MEMBRANE_ASSIGN(RandomStream* const stream, stream_of(call));
  return static_cast<double>(stream->next_u64() >> 11) * 0x1p-53;
}

HostResult<Value> range(Call& call) {
  MEMBRANE_ASSIGN(RandomStream* const stream, stream_of(call));
  const auto [low, high] =
      std::minmax({call.i32(0), call.i32(1)});  // a list: two arguments would give references
  const uint64_t count = static_cast<uint64_t>(int64_t{high} - int64_t{low}) + 1;
  // Values in the last, incomplete range of `count` are drawn again; otherwise small numbers would be more frequent.
  const uint64_t rest = (uint64_t{1} << 32) % count;
  uint64_t drawn = stream->next_u32();
  while (drawn >= (uint64_t{1} << 32) - rest) drawn = stream->next_u32();
  return static_cast<int32_t>(int64_t{low} + static_cast<int64_t>(drawn % count));
}

HostResult<Value> bytes(Call& call) {
  if (call.i32(0) < 0) return refuse(Errno::kInvalid, "the count is negative");
  if (call.i32(0) > kMaxBytes)
    return refuse(Errno::kTooBig, "more than 1 MiB of random bytes was asked for at once");
  MEMBRANE_ASSIGN(RandomStream* const stream, stream_of(call));
  std::string result(static_cast<size_t>(call.i32(0)), '\0');
  stream->fill({reinterpret_cast<uint8_t*>(result.data()), result.size()});
  return result;
}

// RFC 9562, section 5.4.
HostResult<Value> uuid(Call& call) {
  MEMBRANE_ASSIGN(RandomStream* const stream, stream_of(call));
  std::array<uint8_t, 16> id{};
  stream->fill(id);
  id[6] = static_cast<uint8_t>((id[6] & 0x0F) | 0x40);
  id[8] = static_cast<uint8_t>((id[8] & 0x3F) | 0x80);
  std::string text = hex_of(id);
  for (const size_t at : {8, 13, 18, 23}) text.insert(at, 1, '-');
  return text;
}

constexpr std::string_view kSource =
    "Numbers come from a ChaCha20 stream whose key is drawn once, at the first use: from the policy's seed, "
    "so that every run "
    "draws the same, or from the kernel when the policy grants real randomness.";

constexpr FunctionSpec kFunctions[] = {
    {.module = "random",
     .name = "i32",
     .result = Type::kI32,
     .result_name = "value",
     .summary = "Any i32, each as likely.",
     .details = kSource,
     .example = "(drop (call $random.i32))",
     .handler = i32,
     .is_rare = true},
    {.module = "random",
     .name = "i64",
     .result = Type::kI64,
     .result_name = "value",
     .summary = "Any i64, each as likely.",
     .details = kSource,
     .example = "(drop (call $random.i64))",
     .handler = i64,
     .is_rare = true},
    {.module = "random",
     .name = "f64",
     .result = Type::kF64,
     .result_name = "value",
     .summary = "A number from 0 up to but not 1.",
     .details = kSource,
     .example = "(call $io.print_i32 (f64.lt (call $random.f64) (f64.const 1)))",
     .prints = "1",
     .handler = f64},
    {.module = "random",
     .name = "range",
     .params = {{"low", Type::kI32}, {"high", Type::kI32}},
     .result = Type::kI32,
     .result_name = "value",
     .summary = "A number from low to high, both included, each as likely; the two may come in either order.",
     .details = kSource,
     .example = "(call $io.print_i32 (call $random.range (i32.const 7) (i32.const 7)))",
     .prints = "7",
     .handler = range},
    {.module = "random",
     .name = "bytes",
     .params = {{"count", Type::kI32}},
     .result = Type::kBytes,
     .result_name = "bytes",
     .can_fail = true,
     .summary = "So many random bytes.",
     .details = kSource,
     .failures = {{Errno::kInvalid, "the count is negative"}, {Errno::kTooBig, "the count is above 1048576"}},
     .example = "(call $io.print_i32 (call $str.length (call $random.bytes! (i32.const 16))))",
     .prints = "16",
     .handler = bytes,
     .is_rare = true},
    {.module = "random",
     .name = "uuid",
     .result = Type::kText,
     .result_name = "text",
     .summary = "A random UUID (version 4), 36 characters in lower case.",
     .details = kSource,
     .example = "(call $io.print_i32 (call $str.length (call $random.uuid)))",
     .prints = "36",
     .handler = uuid},
};

}  // namespace

std::span<const FunctionSpec> random_functions() { return kFunctions; }

}  // namespace membrane::host
