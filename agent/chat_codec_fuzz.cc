// Arbitrary bytes as a server's answer, whole and streamed: decoded or refused.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "agent/chat_codec.h"
#include "agent/sse.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace membrane::agent;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (decode_error(text).message.size() > 1000) std::abort();
  (void)decode_embedding(text);
  if (const auto whole = decode_completion(text); whole && whole->tool_calls.size() > kMaxToolCalls)
    std::abort();

  std::string seen;
  ChatControl control;
  control.on_text = [&](std::string_view piece) { seen += piece; };
  StreamDecoder decoder(control);
  membrane::Status status;
  SseParser parser([&](const SseEvent& event) {
    if (status) status = decoder.delta(event.data);
  });
  (void)parser.feed(text);
  const Completion completion = std::move(decoder).finish();
  if (completion.content != seen) std::abort();  // what was shown is what is kept
  for (const ToolCall& call : completion.tool_calls)
    if (call.id.empty() || call.name.empty()) std::abort();
  Dialect dialect;
  for (int i = 0; i < 100; ++i)
    if (adapt(dialect, text).empty()) return 0;
  std::abort();  // adapting must come to an end
}
