#include "cli/exec_view.h"

#include "base/json.h"
#include "cli/cli.h"
#include "cli/remote_hints.h"
#include "sandbox/report.h"

namespace membrane::cli {

// The report's event has all that was printed: as much as a sandbox may print, escaped.
constexpr JsonLimits kEventLimits{.bytes = 512u << 20, .memory_bytes = 2ull << 30};

void ExecView::take(const agent::SseEvent& event) {
  last_id = event.last_event_id;
  ++count;
  const auto json = read_ordered_json(event.data, "an event", kEventLimits);
  if (!json || !json->is_object()) return;
  if (event.type == "report") report = *json;
  if (is_quiet_) return;
  if (event.type == "stdout") show(stdout, text_at(*json, "text"), in_line_);
  if (event.type == "stderr") show(stderr, text_at(*json, "text"), error_in_line_);
  if (event.type == "approval") show_approval(*json);
}

void ExecView::show_end() {
  const std::string result = text_at(report, "result");
  if (!result.empty()) {
    print((in_line_ ? "\n" : "") + result + "\n");
    in_line_ = false;
  }
  std::fflush(stdout);
  const auto error = report.find("error");
  if (error == report.end() || !error->is_object()) return;
  if (error_in_line_ || (in_line_ && same_file(stdout, stderr))) print(stderr, "\n");
  const std::string traceback = text_at(*error, "traceback"), hint = text_at(*error, "hint");
  print(stderr, traceback.empty() ? text_at(report, "outcome") + ": " + text_at(*error, "message") + "\n"
                                  : traceback);
  if (!hint.empty()) print(stderr, "hint: " + in_words_of_command(hint, sandbox_) + "\n");
}

int ExecView::exit_code() const {
  if (const auto code = report.find("exit_code"); code != report.end() && code->is_number_integer())
    return sandbox::exit_code_of_process(code->get<int64_t>());
  const std::string outcome = text_at(report, "outcome");
#define X(id, name, exit, sentence)   \
  if (outcome == (name)) return exit;
  MEMBRANE_OUTCOMES(X)
#undef X
  return kExitMembrane;
}

void ExecView::show_approval(const Json& approval) const {
  const std::string id = text_at(approval, "id"), state = text_at(approval, "state");
  print(stderr, "approval " + id + " " + state + ": " + request_line(approval) + "\n");
  if (state == "waiting")
    print(stderr,
          "hint: membrane approve " + sandbox_ + " " + id + " lets it go; with --deny it is refused\n");
}

void ExecView::show(std::FILE* to, const std::string& text, bool& in_line) {
  if (text.empty()) return;
  print(to, text);
  std::fflush(to);
  in_line = !text.ends_with('\n');
}

RemoteRequest events_of(const std::string& sandbox, const std::string& exec, const std::string& after) {
  RemoteRequest request{.path = of_sandbox(sandbox, {"execs", exec, "events"})};
  if (!after.empty()) request.query = {{"after", after}};
  return request;
}

Status follow(Remote& remote, const std::string& sandbox, RemoteRequest request, std::string exec,
              ExecView& view) {
  constexpr uint32_t kMostCuts = 3;  // without an event
  for (uint32_t cuts = 0;;) {
    const uint64_t before = view.count;
    const Status read = remote.stream(request, [&](const agent::SseEvent& event) { view.take(event); });
    if (!view.report.is_null()) return {};
    if (!remote.exec_id().empty()) exec = remote.exec_id();
    cuts = view.count == before ? cuts + 1 : 0;
    const bool is_cut = read || read.error().code == ErrorCode::kUnavailable;
    if (!is_cut || exec.empty() || cuts > kMostCuts)
      return read ? fail(ErrorCode::kUnavailable, "the service ended the answer before its end") : read;
    request = events_of(sandbox, exec, view.last_id);
  }
}

}  // namespace membrane::cli
