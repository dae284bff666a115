#include "sandbox/frozen_state.h"

#include <concepts>

#include "base/number_reader.h"
#include "base/utf8.h"

namespace membrane::sandbox {
namespace {

constexpr uint32_t kTag = 0x4E55524D;  // "MRUN"
constexpr uint64_t kMostHeap = (1ull << 32) + 8;

class Writer {
 public:
  template <std::integral T>
  void number(T& value) {
    const auto* const from = reinterpret_cast<const uint8_t*>(&value);
    out.insert(out.end(), from, from + sizeof value);
  }
  void flag(bool& value) { out.push_back(value); }
  void bytes(std::string& value) {
    uint64_t size = value.size();
    number(size);
    out.insert(out.end(), value.begin(), value.end());
  }
  template <typename T, typename Each>
  void list(std::vector<T>& values, Each each) {
    uint64_t count = values.size();
    number(count);
    for (T& value : values) each(value);
  }

  std::vector<uint8_t> out;
};

class Reader : public NumberReader {
 public:
  using NumberReader::NumberReader;

  template <std::integral T>
  void number(T& value) {
    value = NumberReader::number<T>();
  }
  void flag(bool& value) { value = NumberReader::flag(); }
  void bytes(std::string& value) {
    const auto from = take(NumberReader::number<uint64_t>());
    value.assign(from.begin(), from.end());
  }
  // Grows as its elements are read: the count alone is nothing to allocate by.
  template <typename T, typename Each>
  void list(std::vector<T>& values, Each each) {
    const auto count = NumberReader::number<uint64_t>();
    for (uint64_t i = 0; i < count && ok(); ++i) each(values.emplace_back());
  }
};

// The fields in their order, for both directions.
template <typename Io>
void error_code(Io& io, host::Errno& code) {
  auto number = static_cast<int32_t>(code);
  io.number(number);
  code = static_cast<host::Errno>(number);
}

template <typename Io>
void record(Io& io, host::CallRecord& call) {
  io.bytes(call.name);
  error_code(io, call.code);
  io.bytes(call.reason);
  io.bytes(call.grant);
  io.bytes(call.arguments);
  io.number(call.bytes_in);
  io.number(call.bytes_out);
  io.number(call.latency_us);
}

template <typename Io>
void random_stream(Io& io, std::optional<host::RandomStream>& stream) {
  bool has = stream.has_value();
  io.flag(has);
  if (!has) return;
  host::RandomStream::Key key = stream ? stream->key() : host::RandomStream::Key{};
  uint64_t position = stream ? stream->position() : 0;
  for (uint8_t& byte : key) io.number(byte);
  io.number(position);
  stream.emplace(key, position);
}

template <typename Io>
void history(Io& io, host::Dispatcher::History& h) {
  io.number(h.state.http_status);
  io.list(h.state.http_headers, [&](auto& header) {
    io.bytes(header.first);
    io.bytes(header.second);
  });
  random_stream(io, h.state.random);
  error_code(io, h.last_error.code);
  io.bytes(h.last_error.reason);
  io.bytes(h.last_error.grant);
  bool was_denied = h.denial.has_value();
  io.flag(was_denied);
  if (was_denied) record(io, h.denial ? *h.denial : h.denial.emplace());
  io.list(h.records, [&](host::CallRecord& call) { record(io, call); });
  io.number(h.malformed);
  io.number(h.records_dropped);
}

template <typename Io>
void fields(Io& io, FrozenState& s) {
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
}

// What a run never leaves behind, so that what relies on it may.
bool is_sound(const FrozenState& s) {
  for (const std::string* const text :
       {&s.program_name, &s.entry, &s.stdout_text, &s.stderr_text, &s.result, &s.answer})
    if (!is_utf8(*text)) return false;
  return s.phase <= RunPhase::kEntry && s.heap_next <= kMostHeap &&
         s.history.records.size() <= host::Dispatcher::kMaxRecords &&
         s.history.malformed <= s.history.records.size();
}

std::unexpected<Error> damaged(const char* what) {
  return fail(ErrorCode::kInvalidInput, std::string("the snapshot is damaged: ") + what,
              "Freeze the program again.");
}

}  // namespace

std::vector<uint8_t> write_state(FrozenState state) {
  Writer writer;
  uint32_t tag = kTag, version = kFrozenStateVersion;
  writer.number(tag);
  writer.number(version);
  fields(writer, state);
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
  if (version != kFrozenStateVersion)
    return fail(ErrorCode::kUnsupported,
                "the run in the snapshot has format version " + std::to_string(version) +
                    ", and this program reads version " + std::to_string(kFrozenStateVersion),
                "Thaw it with the version of Membrane that froze it.");
  FrozenState state;
  fields(reader, state);
  if (!reader.ok()) return damaged("the run's state is cut short");
  if (!reader.left().empty()) return damaged("something follows the run's state");
  if (!is_sound(state)) return damaged("the run's state is none that a run can have");
  return state;
}

}  // namespace membrane::sandbox
