#include "service/e2b/command_stream.h"

#include "base/base64.h"
#include "base/json.h"
#include "service/e2b/exec_stream.h"

namespace membrane::service::e2b {
namespace {

constexpr int kExitKilled = -1;

std::string event_frame(const OrderedJson& event) { return frame(json_text(OrderedJson{{"event", event}})); }

std::string output_frame(const char* stream, std::string_view text) {
  return event_frame({{"data", {{stream, base64_encode(text)}}}});
}

std::string exit_frame(int code, const std::string& error = {}) {
  OrderedJson end = {
      {"exitCode", code}, {"exited", code != kExitKilled}, {"status", "exit status " + std::to_string(code)}};
  if (code == kExitKilled) end["status"] = error.empty() ? "signal: killed" : error;
  if (code != 0) end["error"] = error.empty() ? "exit status " + std::to_string(code) : error;
  return event_frame({{"end", end}}) + end_frame();
}

std::string message_in(const OrderedJson& error) {
  const std::string hint = error.value("hint", "");
  return error.value("message", "") + (hint.empty() ? "" : ". " + hint);
}

// How a command ended, from the report of its exec.
std::string end_of(const Command& command, const std::string& text) {
  const auto report = read_ordered_json(text, "the report");
  if (!report) return end_frame(RpcError{RpcCode::kInternal, "the command has no report"});
  const std::string outcome = report->value("outcome", "");
  const OrderedJson error = report->value("error", OrderedJson::object());
  const std::string message = error.value("message", "");
  if (outcome == "timed_out") return end_frame(RpcError{RpcCode::kDeadlineExceeded, message});
  if (outcome == "cancelled") return exit_frame(kExitKilled, "signal: killed");
  const int code = report->value("exit_code", outcome == "ok" ? 0 : 1);
  if (error.empty()) return exit_frame(code);
  if (command.is_linux) return exit_frame(kExitKilled, message_in(error));  // a signal, or a limit
  const std::string shown = error.value("traceback", message_in(error) + "\n");
  return output_frame("stderr", shown) + exit_frame(code, "exit status " + std::to_string(code));
}

std::string frames_of(const Command& command, const Exec::Event& event) {
  switch (event.kind) {
    case Exec::Kind::kStdout: return output_frame(command.has_terminal ? "pty" : "stdout", event.text);
    case Exec::Kind::kStderr: return output_frame("stderr", event.text);
    case Exec::Kind::kDisplay:
    case Exec::Kind::kApproval: return "";
    case Exec::Kind::kReport: return end_of(command, event.text);
  }
  return "";
}

}  // namespace

void stream_command(const SharedCall& call, const Command& command, const std::shared_ptr<Exec>& exec) {
  ExecStreamForm form{.beginning = event_frame({{"start", {{"pid", command.pid}}}}),
                      .render = [command](const Exec::Event& event) { return frames_of(command, event); },
                      .keep_alive = event_frame({{"keepalive", OrderedJson::object()}})};
  call->reply({.status = 200,
               .headers = {{"Content-Type", std::string(kStreamType)}, {"Cache-Control", "no-store"}},
               .source = std::make_shared<ExecStream>(exec, std::move(form))});
}

void refuse_stream(const SharedCall& call, const RpcError& error) { call->reply(stream_response(error)); }

RpcError why_not_begun(const Exec& exec) {
  const auto report = read_ordered_json(exec.report_json(), "the report");
  if (!report) return {RpcCode::kInternal, "the command has no report"};
  const bool is_asked_wrongly = report->value("outcome", "") == "invalid";
  return {is_asked_wrongly ? RpcCode::kInvalidArgument : RpcCode::kUnavailable,
          message_in(report->value("error", OrderedJson::object()))};
}

uint64_t bytes_of(const Command& command) {
  uint64_t bytes =
      command.program.size() + command.directory.value_or("").size() + command.tag.value_or("").size();
  for (const std::string& each : command.arguments) bytes += each.size();
  for (const auto& [name, value] : command.environment) bytes += name.size() + value.size();
  return bytes;
}

}  // namespace membrane::service::e2b
