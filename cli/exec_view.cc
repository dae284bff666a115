#include "cli/exec_view.h"

#include "base/base64.h"
#include "base/json.h"
#include "base/utf8.h"
#include "cli/cli.h"
#include "cli/remote_hints.h"
#include "sandbox/report/report.h"

namespace membrane::cli {

// A report contains values and displays of many bytes.
constexpr JsonLimits kEventLimits{.bytes = 512u << 20, .memory_bytes = 2ull << 30};

namespace {

// {"text/plain":"4","image/png":{"base64":"…"}}
sandbox::RichValue rich_value_of(const Json& forms) {
  sandbox::RichValue value;
  if (!forms.is_object()) return value;
  for (const auto& [type, data] : forms.items())
    value.push_back(
        {type, data.is_string() ? data.get<std::string>() : text_at(data, "base64"), !data.is_string()});
  return value;
}

// What the report shows besides its texts, and how to get an image of it; "" for nothing.
std::string shown_in(const Json& report, const std::string& sandbox) {
  sandbox::Report shown;
  if (const auto value = report.find("value"); value != report.end()) shown.value = rich_value_of(*value);
  for (const Json& each : list_at(report, "displays")) shown.displays.push_back(rich_value_of(each));
  std::string text = sandbox::render_shown(shown);
  if (text.contains("[image/"))
    text +=
        "hint: --json prints images, as base64; a file that the code writes is brought here by membrane cp " +
        sandbox + ":/FILE .\n";
  return text;
}

}  // namespace

void ExecView::take(const agent::SseEvent& event) {
  last_id = event.last_event_id;
  ++count;
  const auto json = read_ordered_json(event.data, "an event", kEventLimits);
  if (!json || !json->is_object()) return;
  if (event.type == "report") report = *json;
  if (event.type == "stdout") take_output(stdout, output_in(*json), printed_, in_line_);
  if (event.type == "stderr") take_output(stderr, output_in(*json), error_printed_, error_in_line_);
  if (is_quiet_) return;
  if (event.type == "approval") show_approval(*json);
}

void ExecView::show_end() {
  const std::string result = text_at(report, "result");
  if (!result.empty()) {
    print((in_line_ ? "\n" : "") + result + "\n");
    in_line_ = false;
  }
  std::fflush(stdout);
  const std::string shown = shown_in(report, sandbox_);
  const auto error = report.find("error");
  const bool is_error = error != report.end() && error->is_object();
  if (!is_error && shown.empty()) return;
  if (error_in_line_ || (in_line_ && same_file(stdout, stderr))) print(stderr, "\n");
  print(stderr, shown);
  if (!is_error) return;
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
  const std::string id = line_at(approval, "id"), state = line_at(approval, "state");
  print(stderr, "approval " + id + " " + state + ": " + request_line(approval) + "\n");
  if (state == "waiting")
    print(stderr, "hint: membrane approve " + sandbox_ + " " + id + " approves it; --deny refuses it\n");
}

void ExecView::take_output(std::FILE* to, const std::string& bytes, std::string& kept, bool& in_line) {
  if (bytes.empty()) return;
  if (is_quiet_) {
    kept += bytes;
    return;
  }
  print(to, is_terminal(to) ? utf8_repair(bytes) : bytes);
  std::fflush(to);
  in_line = !bytes.ends_with('\n');
}

Json ExecView::whole_report() const {
  Json whole = report;
  const auto put = [&whole](const std::string& name, const std::string& bytes) {
    if (bytes.empty()) return;
    whole[name] = utf8_repair(bytes);
    if (!is_utf8(bytes)) whole[name + "_base64"] = base64_encode(bytes);
  };
  put("stdout", printed_);
  put("stderr", error_printed_);
  return whole;
}

// An older service answers with text.
std::string output_in(const Json& event) {
  if (!event.contains("base64")) return text_at(event, "text");
  return base64_decode(text_at(event, "base64")).value_or("");
}

RemoteRequest events_of(const std::string& sandbox, const std::string& exec, const std::string& after) {
  RemoteRequest request{.path = of_sandbox(sandbox, {"execs", exec, "events"}),
                        .query = {{"output", kOutputForm}}};
  if (!after.empty()) request.query.emplace_back("after", after);
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
