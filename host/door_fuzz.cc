// Any bytes as a request: an answer that is JSON, or an end of the run.
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "host/broker_gate.h"
#include "host/door.h"
#include "host/guest_testing.h"

using namespace membrane::host;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view request(reinterpret_cast<const char*>(data), size);
  static const Journal nothing;  // a world that answers nothing: requests that reach it fail
  BrokerGate gate = BrokerGate::to_journal(nothing);
  VectorGuest guest;
  Dispatcher dispatcher(guest, gate);
  Door door(guest, dispatcher);
  const std::string answer = door.answer(request);
  if (door.end() != CallEnd::kReturn) return 0;
  const auto parsed = nlohmann::json::parse(answer, nullptr, false);
  if (!parsed.is_object()) std::abort();
  // A request that was refused as malformed did nothing.
  if (parsed.contains("error") && parsed["error"]["errno"] == "EINVAL" && !guest.stdout_text.empty())
    std::abort();
  return 0;
}
