// How states of the sandbox are written and read: one function lists the fields in order for both, given a Writer or
// a Reader. Fields that several states share are here.
//
// Only files that write such states include this. Threads: values.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/number_reader.h"
#include "host/dispatch.h"
#include "host/flows.h"
#include "host/random.h"

namespace membrane::sandbox::state_fields {

// The largest possible end of the heap of host functions.
inline constexpr uint64_t kMostHeap = (1ull << 32) + 8;

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
  // Large values are borrowed.
  void span(std::span<const uint8_t>& value) {
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
  void span(std::span<const uint8_t>& value) { value = take(NumberReader::number<uint64_t>()); }
  // Grows as its elements are read: the count alone must not cause an allocation. An element takes more memory than
  // its bytes, so all lists of a state together have at most kMostElements.
  template <typename T, typename Each>
  void list(std::vector<T>& values, Each each) {
    const auto count = NumberReader::number<uint64_t>();
    for (uint64_t i = 0; i < count && ok(); ++i) {
      if (elements_++ == kMostElements) return fail();
      each(values.emplace_back());
    }
  }

 private:
  static constexpr uint64_t kMostElements = 1'000'000;
  uint64_t elements_ = 0;
};

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
void random_stream(Io& io, std::optional<RandomStream>& stream) {
  bool has = stream.has_value();
  io.flag(has);
  if (!has) return;
  RandomStream::Key key = stream ? stream->key() : RandomStream::Key{};
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
void flow_state(Io& io, host::FlowState& flows) {
  io.number(flows.calls);
  for (host::FlowReads* const reads : {&flows.private_reads, &flows.untrusted_reads}) {
    io.list(reads->first, [&](host::FlowRead& read) {
      io.number(read.call);
      io.bytes(read.function);
      io.bytes(read.target);
    });
    io.number(reads->more);
  }
}

// Invariants of every run's history, which the rest of the code relies on.
inline bool is_sound_history(const host::Dispatcher::History& history) {
  return history.records.size() <= host::Dispatcher::kMaxRecords &&
         history.malformed <= history.records.size();
}

}  // namespace membrane::sandbox::state_fields
