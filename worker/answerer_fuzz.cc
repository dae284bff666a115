// A hostile worker's requests: whatever the bytes are, each is answered or refused.

#include "worker/answerer.h"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace membrane;
  sandbox::RunOptions options;
  options.policy.kv.emplace();  // in memory: what is asked has an answer
  options.policy.limits.host_calls = 64;
  auto functions = std::make_shared<sandbox::GuestFunctions>();
  functions->call = [](std::span<const sandbox::FunctionCall> calls, const sandbox::MustStop&) {
    return std::vector<sandbox::FunctionAnswer>(calls.size() / 2, sandbox::FunctionAnswer::later());
  };
  options.guest_functions = std::move(functions);
  auto sources = std::make_shared<host::Sources>();
  sources->sleep = host::Sources::Sleep::kAsked;
  sources->sleep_ns = [](uint64_t ns, const std::function<bool()>& must_stop) {
    return ns % 2 == 0 && !must_stop();
  };
  options.sources = std::move(sources);
  const auto budget = std::make_shared<policy::Budget>(options.policy.limits);
  worker::Answerer answerer(options, sandbox::world_of(options, budget), 1u << 20);
  answerer.begin();
  // Several requests, so that one finds what another left; a byte gives the length of each.
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  for (int i = 0; i < 32 && !rest.empty(); ++i) {
    const size_t length = std::min<size_t>(static_cast<uint8_t>(rest[0]), rest.size() - 1);
    static_cast<void>(answerer.answer(rest.substr(1, length)));
    rest.remove_prefix(1 + length);
  }
  return 0;
}
