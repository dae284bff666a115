#include "sandbox/frozen_state.h"

#include "base/utf8.h"
#include "sandbox/state_fields.h"

namespace membrane::sandbox {
namespace {

using namespace state_fields;

constexpr uint32_t kTag = 0x4E55524D;  // "MRUN"

template <typename Io>
void fields(Io& io, FrozenState& s, uint32_t version) {
  io.bytes(s.program_name);
  io.bytes(s.entry);
  auto phase = static_cast<uint8_t>(s.phase);
  io.number(phase);
  s.phase = static_cast<RunPhase>(phase);
  io.list(s.arguments, [&](std::string& argument) { io.bytes(argument); });
  io.bytes(s.input);
  io.bytes(s.stdout_text);
  io.bytes(s.stderr_text);
  io.bytes(s.result);
  io.bytes(s.answer);
  io.flag(s.submitted);
  io.number(s.written_bytes);
  io.bytes(s.wasi);
  io.number(s.heap_next);
  io.flag(s.memory_limit_was_hit);
  io.number(s.sources.random_bytes);
  io.number(s.sources.clock_readings);
  io.number(s.host_calls);
  io.number(s.bytes_in);
  io.number(s.bytes_out);
  io.number(s.tokens);
  io.number(s.tokens_reported);
  history(io, s.history);
  if (version >= 3) flow_state(io, s.flows);
  if (version >= 4) io.bytes(s.waits ? *s.waits : s.waits.emplace());
}

constexpr uint32_t kOldestVersion = 2;

uint32_t version_of(const FrozenState& state) {
  if (state.waits) return kFrozenStateVersion;
  return state.flows.is_empty() ? kOldestVersion : kOldestVersion + 1;
}

// Invariants of every run's state, which the rest of the code relies on.
bool is_sound(const FrozenState& s) {
  for (const std::string* const text :
       {&s.program_name, &s.entry, &s.stdout_text, &s.stderr_text, &s.result, &s.answer})
    if (!is_utf8(*text)) return false;
  return s.phase <= RunPhase::kEntry && s.heap_next <= kMostHeap && is_sound_history(s.history) &&
         s.flows.is_sound();
}

std::unexpected<Error> damaged(const char* what) {
  return fail(ErrorCode::kInvalidInput, std::string("the snapshot is damaged: ") + what,
              "Freeze the program again.");
}

}  // namespace

std::vector<uint8_t> write_state(FrozenState state) {
  Writer writer;
  uint32_t tag = kTag, version = version_of(state);
  writer.number(tag);
  writer.number(version);
  fields(writer, state, version);
  return std::move(writer.out);
}

Result<FrozenState> read_state(std::span<const uint8_t> bytes) {
  Reader reader(bytes);
  uint32_t tag = 0, version = 0;
  reader.number(tag);
  reader.number(version);
  if (!reader.ok() || tag != kTag)
    return fail(ErrorCode::kInvalidInput, "the snapshot is of an engine alone, not of a sandbox's run",
                "Give one that a run with freeze_after_fuel has made.");
  if (version < kOldestVersion || version > kFrozenStateVersion)
    return fail(ErrorCode::kUnsupported,
                "the run in the snapshot has format version " + std::to_string(version) +
                    ", and this program reads versions " + std::to_string(kOldestVersion) + " to " +
                    std::to_string(kFrozenStateVersion),
                "Thaw it with the version of Membrane that froze it.");
  FrozenState state;
  fields(reader, state, version);
  if (!reader.ok()) return damaged("the run's state is truncated");
  if (!reader.left().empty()) return damaged("the run's state has trailing bytes");
  if (!is_sound(state)) return damaged("the run's state is not one that a run can have");
  return state;
}

}  // namespace membrane::sandbox
