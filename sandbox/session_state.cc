#include "sandbox/session_state.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>

#include "engine/code/fuel.h"
#include "sandbox/state_fields.h"
#include "sandbox/turn_inputs.h"

namespace membrane::sandbox {
namespace {

using namespace state_fields;

constexpr char kMagic[8] = {'M', 'E', 'M', 'B', 'S', 'E', 'S', 'S'};

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t cost_version;
  uint64_t body_bytes;
  uint64_t checksum[2];  // XXH3, 128 bits, of the body
};
static_assert(sizeof(Header) == 40);

void checksum_of(std::span<const uint8_t> body, uint64_t (&out)[2]) {
  const XXH128_hash_t hash = XXH3_128bits(body.data(), body.size());
  out[0] = hash.low64;
  out[1] = hash.high64;
}

template <typename Io, typename T>
void optional(Io& io, std::optional<T>& value, auto fields_of) {
  bool has = value.has_value();
  io.flag(has);
  if (has) fields_of(value ? *value : value.emplace());
}

template <typename Io>
void place(Io& io, KeptPlace& p, uint32_t version) {
  io.span(p.changes);
  io.span(p.wasi);
  auto waits = static_cast<uint8_t>(p.waits);
  io.number(waits);
  p.waits = static_cast<KeptPlace::Waits>(waits);
  io.span(p.frames);
  io.number(p.heap_next);
  if (version < 4) return;
  optional(io, p.time_zone, [&](host::TimeZone& zone) {
    io.bytes(zone.name);
    io.bytes(zone.tzif);
  });
  if (version >= 5) io.bytes(p.functions);
}

template <typename Io>
void turn(Io& io, Turn& t, uint32_t version) {
  io.bytes(t.code);
  io.bytes(t.name);
  io.flag(t.is_script);
  io.flag(t.only_checks);
  io.list(t.arguments, [&](std::string& argument) { io.bytes(argument); });
  io.bytes(t.input);
  if (version < 6) return;
  io.list(t.inputs, [&](auto& named) {
    io.bytes(named.first);
    io.bytes(named.second);
  });
}

template <typename Io>
void calls(Io& io, KeptCalls& c) {
  io.list(c.calls, [&](FunctionCall& call) {
    for (std::string* const part : {&call.name, &call.arguments, &call.keywords, &call.object})
      io.bytes(*part);
  });
  io.list(c.answers, [&](FunctionAnswer& answer) {
    auto kind = static_cast<uint8_t>(answer.kind);
    io.number(kind);
    answer.kind = static_cast<FunctionAnswer::Kind>(kind);
    for (std::string* const part : {&answer.value, &answer.type, &answer.message}) io.bytes(*part);
  });
}

template <typename Io>
void pause(Io& io, KeptPause& p, uint32_t version) {
  io.span(p.frames);
  for (auto* const list : {&p.notes, &p.progress}) io.list(*list, [&](uint32_t& one) { io.number(one); });
  io.number(p.fuel_used);
  optional(io, p.turn, [&](Turn& t) { turn(io, t, version); });
  optional(io, p.result, [&](std::string& text) { io.bytes(text); });
  io.number(p.result_bytes);
  io.number(p.output_bytes);
  io.number(p.host_calls);
  io.number(p.bytes_in);
  io.number(p.bytes_out);
  io.number(p.tokens);
  history(io, p.history);
  place(io, p.before, version);
  if (version >= 3) optional(io, p.calls, [&](KeptCalls& c) { calls(io, c); });
}

template <typename Io>
void fields(Io& io, SessionState& s, uint32_t version) {
  io.bytes(s.template_name);
  for (uint64_t& half : s.template_identity) io.number(half);
  place(io, s.place, version);
  io.flag(s.memory_limit_was_hit);
  optional(io, s.last_denial, [&](KeptDenial& denial) {
    error_code(io, denial.code);
    io.bytes(denial.reason);
    io.bytes(denial.grant);
  });
  io.number(s.heap_next);
  io.number(s.turns);
  io.flag(s.needs_entropy);
  random_stream(io, s.fresh);
  io.number(s.sources.random_bytes);
  io.number(s.sources.clock_readings);
  io.bytes(s.input_ahead);
  io.number(s.input_bytes);
  io.flag(s.input_is_over);
  optional(io, s.pause, [&](KeptPause& p) { pause(io, p, version); });
  if (version >= 2) flow_state(io, s.flows);
}

bool is_sound(const KeptPlace& p) {
  const bool has_frames = p.waits == KeptPlace::Waits::kInItsFrames;
  return p.waits <= KeptPlace::Waits::kInItsFrames && p.heap_next <= kMostHeap &&
         (has_frames || p.frames.empty());
}

bool is_sound(const KeptCalls& c) {
  return are_sound(c.calls) && c.calls.size() == c.answers.size() &&
         std::ranges::all_of(c.answers, [](const FunctionAnswer& answer) {
           return answer.kind <= FunctionAnswer::Kind::kLater;
         });
}

bool is_sound(const SessionState& s) {
  return is_sound(s.place) && s.flows.is_sound() && s.heap_next <= kMostHeap && s.fresh.has_value() &&
         (!s.pause || (is_sound(s.pause->before) && is_sound_history(s.pause->history) &&
                       (!s.pause->turn || are_sound(s.pause->turn->inputs)) &&
                       (!s.pause->calls || is_sound(*s.pause->calls))));
}

// The oldest version that can represent the state.
uint32_t version_of(const SessionState& s) {
  if (s.pause && s.pause->turn && !s.pause->turn->inputs.empty()) return 6;
  if (!s.place.functions.empty() || (s.pause && !s.pause->before.functions.empty())) return 5;
  if (s.place.time_zone || (s.pause && s.pause->before.time_zone)) return 4;
  if (s.pause && s.pause->calls) return 3;
  return s.flows.is_empty() ? 1 : 2;
}

std::unexpected<Error> damaged(const char* what) {
  return fail(ErrorCode::kInvalidInput, std::string("the session is damaged: ") + what,
              "Restore the bytes as they were kept, or start a new session.");
}

}  // namespace

std::vector<uint8_t> write_session(SessionState state) {
  Writer writer;
  writer.out.resize(sizeof(Header));
  const uint32_t version = version_of(state);
  fields(writer, state, version);
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = version;
  header.cost_version = engine::kCostVersion;
  header.body_bytes = writer.out.size() - sizeof header;
  checksum_of(std::span(writer.out).subspan(sizeof header), header.checksum);
  std::memcpy(writer.out.data(), &header, sizeof header);
  return std::move(writer.out);
}

Result<SessionState> read_session(std::span<const uint8_t> bytes) {
  Header header{};
  if (bytes.size() < sizeof header || std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0)
    return fail(ErrorCode::kInvalidInput, "this is not a saved session", "Give the bytes that keep() made.");
  std::memcpy(&header, bytes.data(), sizeof header);
  const auto other = [](const char* of, uint32_t found, uint32_t own) {
    return fail(ErrorCode::kUnsupported,
                std::string("the session was kept with ") + of + " " + std::to_string(found) +
                    ", and this program has " + std::to_string(own),
                "Restore it with the version of Membrane that kept it.");
  };
  if (header.version < 1 || header.version > kSessionVersion)
    return other("format version", header.version, kSessionVersion);
  if (header.cost_version != engine::kCostVersion)
    return other("cost table", header.cost_version, engine::kCostVersion);
  const auto body = bytes.subspan(sizeof header);
  uint64_t checksum[2];
  checksum_of(body, checksum);
  if (header.body_bytes != body.size() || header.checksum[0] != checksum[0] ||
      header.checksum[1] != checksum[1])
    return damaged("its checksum is not that of its content");
  Reader reader(body);
  SessionState state;
  fields(reader, state, header.version);
  if (!reader.ok()) return damaged("it is truncated");
  if (!reader.left().empty()) return damaged("it has trailing bytes");
  if (!is_sound(state)) return damaged("it is not a state that a session can have");
  return state;
}

bool repair_session_checksum(std::span<uint8_t> bytes) {
  Header header{};
  if (bytes.size() < sizeof header) return false;
  std::memcpy(&header, bytes.data(), sizeof header);
  header.body_bytes = bytes.size() - sizeof header;
  checksum_of(bytes.subspan(sizeof header), header.checksum);
  std::memcpy(bytes.data(), &header, sizeof header);
  return true;
}

}  // namespace membrane::sandbox
