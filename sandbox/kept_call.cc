#include "sandbox/kept_call.h"

#include "sandbox/state_fields.h"

namespace membrane::sandbox {
namespace {

using namespace state_fields;

constexpr uint32_t kTag = 0x4C41434D;  // "MCAL"

template <typename Io>
void fields(Io& io, KeptCall& call) {
  io.number(call.heap_next);
  bool waits = call.waits.has_value();
  io.flag(waits);
  if (waits) io.bytes(call.waits ? *call.waits : call.waits.emplace());
}

}  // namespace

std::vector<uint8_t> write_kept_call(KeptCall call) {
  Writer writer;
  uint32_t tag = kTag, version = kKeptCallVersion;
  writer.number(tag);
  writer.number(version);
  fields(writer, call);
  return std::move(writer.out);
}

Result<KeptCall> read_kept_call(std::span<const uint8_t> bytes) {
  Reader reader(bytes);
  uint32_t tag = 0, version = 0;
  reader.number(tag);
  reader.number(version);
  if (!reader.ok() || tag != kTag)
    return fail(ErrorCode::kInvalidInput, "the snapshot is not of a call of an instance",
                "Give what Call::dump() has made; thaw runs of a sandbox there.");
  if (version != kKeptCallVersion)
    return fail(ErrorCode::kUnsupported,
                "the call in the snapshot has format version " + std::to_string(version) +
                    ", and this program reads version " + std::to_string(kKeptCallVersion),
                "Load it with the version of Membrane that dumped it.");
  KeptCall call;
  fields(reader, call);
  if (!reader.ok() || !reader.left().empty() || call.heap_next > kMostHeap)
    return fail(ErrorCode::kInvalidInput,
                "the snapshot is damaged: the call's state is not one that a call can have",
                "Dump the call again.");
  return call;
}

}  // namespace membrane::sandbox
