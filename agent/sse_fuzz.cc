// Whatever the bytes and wherever they are split, the events are the same.
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "agent/sse.h"

namespace {

struct Outcome {
  std::vector<membrane::agent::SseEvent> events;
  std::optional<membrane::agent::SseEvent> unfinished;
  std::optional<uint64_t> retry_ms;
  bool refused = false;
  bool operator==(const Outcome&) const = default;
};

// Piece lengths come cyclically from `lengths`; 0 stands for an empty piece.
Outcome parse(std::string_view bytes, std::string_view lengths) {
  Outcome outcome;
  membrane::agent::SseParser parser([&](const auto& event) { outcome.events.push_back(event); },
                                    {.line_bytes = 64, .data_bytes = 128});
  for (size_t at = 0, i = 0; at < bytes.size(); ++i) {
    size_t length =
        lengths.empty() ? bytes.size() : static_cast<unsigned char>(lengths[i % lengths.size()]) % 9;
    if (i % 64 == 63) length = 1;  // also lengths that are all 0 get on
    const auto piece = bytes.substr(at, length);
    at += piece.size();
    if (!parser.feed(piece)) {
      outcome.refused = true;
      return outcome;
    }
  }
  outcome.unfinished = parser.unfinished();
  outcome.retry_ms = parser.retry_ms();
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t lengths = std::min<size_t>(data[0] % 8 + 1, size - 1);
  const auto bytes = input.substr(1 + lengths);
  const Outcome whole = parse(bytes, "");
  if (parse(bytes, input.substr(1, lengths)) != whole) std::abort();
  if (parse(bytes, "\1") != whole) std::abort();
  return 0;
}
