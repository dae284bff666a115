// Arbitrary bytes as a recording: read or refused, and a parsed one can be queried.
#include <cstdint>
#include <cstdlib>

#include "agent/transcript.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace membrane::agent;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto recording = Recording::parse(text, "fuzz");
  if (!recording) {
    if (recording.error().message.empty()) std::abort();
    return 0;
  }
  const size_t replies = recording->replies.size();
  ReplayCheck check(*recording);
  membrane::agent::Program program;
  check.on_program(program);
  check.on_report(program, {});
  RecordedModel model(*std::move(recording));
  const Catalog catalog;
  const membrane::agent::Language languages[] = {
      membrane::agent::wat(), {.name = "python", .title = "Python", .tags = {"python", "py"}}};
  for (size_t i = 0; i < replies; ++i) {
    const auto reply = model.complete({}, {});
    if (!reply) std::abort();
    read_reply(*reply, catalog, languages);
  }
  if (model.complete({}, {})) std::abort();
  return 0;
}
