// log: messages of a program about its work, separate from its output.
#include "base/utf8.h"
#include "host/call.h"
#include "host/capabilities/all.h"

namespace membrane::host {
namespace {

HostResult<Value> write(Call& call, std::string_view level) {
  std::string line = "[" + std::string(level) + "] " + utf8_repair(call.text(0));
  line += '\n';
  if (!call.guest.print(Stream::kStderr, line)) call.end = CallEnd::kOutOfOutput;
  return Value();
}

HostResult<Value> debug(Call& call) { return write(call, "debug"); }
HostResult<Value> info(Call& call) { return write(call, "info"); }
HostResult<Value> warn(Call& call) { return write(call, "warn"); }
HostResult<Value> error(Call& call) { return write(call, "error"); }

constexpr Param kText{"text", Type::kBytes};
constexpr std::string_view kDetails = "A line of stderr: `[level] text`. Counts against the output limit.";

constexpr FunctionSpec kFunctions[] = {
    {.module = "log",
     .name = "debug",
     .params = {kText},
     .effect = Effect::kOutput,
     .summary = "Writes a line for who looks for a fault.",
     .details = kDetails,
     .example = R"((call $log.debug (string "row 17")))",
     .handler = debug,
     .is_rare = true},
    {.module = "log",
     .name = "info",
     .params = {kText},
     .effect = Effect::kOutput,
     .summary = "Writes a line about what is being done.",
     .details = kDetails,
     .example = R"((call $log.info (string "reading the page")))",
     .handler = info,
     .is_rare = true},
    {.module = "log",
     .name = "warn",
     .params = {kText},
     .effect = Effect::kOutput,
     .summary = "Writes a line about what may be wrong.",
     .details = kDetails,
     .example = R"((call $log.warn (string "no date found")))",
     .handler = warn,
     .is_rare = true},
    {.module = "log",
     .name = "error",
     .params = {kText},
     .effect = Effect::kOutput,
     .summary = "Writes a line about what went wrong; the run goes on.",
     .details = kDetails,
     .example = R"((call $log.error (string "the page is empty")))",
     .handler = error,
     .is_rare = true},
};

}  // namespace

std::span<const FunctionSpec> log_functions() { return kFunctions; }

}  // namespace membrane::host
