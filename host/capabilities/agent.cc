// agent: the task that a program is a step of.
#include "base/utf8.h"
#include "host/capabilities/all.h"
#include "host/capabilities/call.h"

namespace membrane::host {
namespace {

HostResult<Value> submit(Call& call) {
  const std::string_view text = call.text(0);
  const bool fits = is_utf8(text) ? call.guest.submit(text) : call.guest.submit(utf8_repair(text));
  call.end = fits ? CallEnd::kExit : CallEnd::kOutOfOutput;
  return Value();
}

HostResult<Value> ask(Call& call) { return call.broker.ask(call.text(0)); }

constexpr FunctionSpec kFunctions[] = {
    {.module = "agent",
     .name = "submit",
     .params = {{"answer", Type::kBytes}},
     .effect = Effect::kOutput,
     .summary = "Submits the final answer of the task and ends the program; nothing after it runs.",
     .details = "The outcome of the run is `ok`. Bytes that are not UTF-8 become U+FFFD.",
     .example = R"((call $io.print (string "done"))
(call $agent.submit (string "The newest paper is from 2022."))
(call $io.print (string "never printed")))",
     .prints = "done",
     .handler = submit},
    {.module = "agent",
     .name = "ask",
     .params = {{"question", Type::kText}},
     .result = Type::kText,
     .result_name = "answer",
     .can_fail = true,
     .effect = Effect::kWorld,
     .cost = {.base = 1'000, .per_byte = 1},
     .summary = "Asks the person who runs the agent; ENOTSUP when there is no one.",
     .failures = {{Errno::kAccess, "no grant allows it"},
                  {Errno::kUnsupported, "no one is there to answer"},
                  {Errno::kTimedOut, "no answer came in time"}},
     .example = R"((call $io.print (call $agent.ask! (string "Which year do you mean?"))))",
     .handler = ask},
};

}  // namespace

std::span<const FunctionSpec> agent_functions() { return kFunctions; }

}  // namespace membrane::host
