// Arbitrary text as a journal, and as the answers in one: no crash, and a journal that is accepted is written back
// as the same bytes.
#include <cstdlib>

#include "base/sha256.h"
#include "host/broker_gate.h"

using namespace membrane;
using namespace membrane::host;

namespace {

// A journal whose one entry answers this request with any text: after the chain check, which a fuzzer cannot pass.
Journal forged(const char* function, std::string_view arguments, std::string_view result) {
  JournalEntry entry;
  entry.function = function;
  entry.arguments_sha256 = sha256_hex(arguments).value();
  entry.result = result;
  Journal journal;
  if (!journal.append(std::move(entry))) std::abort();
  return journal;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto journal = Journal::parse(text); journal && journal->to_text() != text) std::abort();

  const auto answer = [&](const char* function, std::string_view arguments, auto ask) {
    const Journal journal = forged(function, arguments, text);
    BrokerGate gate = BrokerGate::to_journal(journal);
    if (!ask(gate) && !gate.divergence()) std::abort();
  };
  answer("http.request",
         "3:GET1:u0:", [](BrokerGate& gate) { return gate.http({"GET", "u", {}, ""}).has_value(); });
  answer("fs.list", "1:/", [](BrokerGate& gate) { return gate.file_list("/").has_value(); });
  answer("kv.get", "1:k", [](BrokerGate& gate) { return gate.kv_get("k").has_value(); });
  answer("ai.complete", "0:1:p1:0",
         [](BrokerGate& gate) { return gate.ai_complete({"", "p", 0}).has_value(); });
  answer("ai.embed", "1:t", [](BrokerGate& gate) { return gate.ai_embed("t").has_value(); });
  answer("time.now_ms", "", [](BrokerGate& gate) { return gate.clock_ms().has_value(); });
  return 0;
}
