#include "sandbox/report/report.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <span>
#include <tuple>

#include "base/base64.h"
#include "base/json.h"
#include "base/terminal.h"
#include "base/text.h"
#include "base/utf8.h"
#include "engine/code/fuel.h"

namespace membrane {

std::string_view name_of(Outcome outcome) {
  switch (outcome) {
#define X(id, name, exit, sentence) \
  case Outcome::id: return name;
    MEMBRANE_OUTCOMES(X)
#undef X
  }
  return "failed";
}

}  // namespace membrane

namespace membrane::sandbox {

using Json = nlohmann::ordered_json;

std::string_view describe(Outcome outcome) {
  switch (outcome) {
#define X(id, name, exit, sentence)  \
  case Outcome::id: return sentence;
    MEMBRANE_OUTCOMES(X)
#undef X
  }
  return "Membrane itself failed.";
}

int exit_code_of(Outcome outcome) {
  switch (outcome) {
#define X(id, name, exit, sentence) \
  case Outcome::id: return exit;
    MEMBRANE_OUTCOMES(X)  // NOLINT(bugprone-branch-clone): outcomes share exit codes
#undef X
  }
  return 3;
}

int exit_code_of_process(int64_t code) {
  constexpr int64_t kMost = 255;
  return static_cast<int>(code < 0 || code > kMost ? kMost : code);
}

ReportError report_error(const Error& error) {
  return {std::string(name_of(error.code)), error.message, {}, error.hint, {}};
}

ReportError report_error(const Diagnostic& diagnostic) {
  ReportError error{
      std::string(name_of(diagnostic.code)), diagnostic.message, {}, std::string(hint_of(diagnostic)), {}};
  if (!diagnostic.expected.empty()) error.message += "; expected: " + diagnostic.expected;
  if (!diagnostic.found.empty()) error.message += "; found: " + diagnostic.found;
  const Place& place = diagnostic.place;
  error.place = {diagnostic.function, place.offset, place.line, place.column};
  return error;
}

Report refusal(const Error& error) {
  Report report;
  report.outcome = error.code == ErrorCode::kInternal ? Outcome::kFailed : Outcome::kInvalid;
  report.cost_version = engine::kCostVersion;
  report.errors.push_back(report_error(error));
  return report;
}

// -- JSON -----------------------------------------------------------------------

namespace {

// Values that a JSON number holds exactly are numbers; i64, NaNs and infinities are strings.
Json value_json(const ReportValue& value) {
  if (value.type == "i64") return value.value;
  const auto number = read_ordered_json(value.value);
  return number && number->is_number() ? *number : Json(value.value);
}

Json place_json(const ReportPlace& place) {
  Json out = Json::object();
  if (!place.file.empty()) out["file"] = place.file;
  if (!place.function.empty()) out["function"] = place.function;
  if (place.offset != 0) out["offset"] = place.offset;
  if (place.line != 0) out["line"] = place.line;
  if (place.column != 0) out["column"] = place.column;
  return out;
}

Json error_json(const ReportError& error) {
  Json out{{"code", error.code}, {"message", error.message}};
  if (Json place = place_json(error.place); !place.empty()) out["place"] = std::move(place);
  if (!error.hint.empty()) out["hint"] = error.hint;
  for (const ReportPlace& frame : error.backtrace) out["backtrace"].push_back(place_json(frame));
  if (!error.traceback.empty()) out["traceback"] = error.traceback;
  return out;
}

Json call_json(const HostCallRecord& call) {
  Json out{{"name", call.name},
           {"decision", call.allowed ? "allowed" : "denied"},
           {"errno", call.error.empty() ? "OK" : call.error}};
  if (!call.arguments.empty()) out["arguments"] = call.arguments;
  if (!call.reason.empty()) out["reason"] = call.reason;
  if (!call.grant.empty()) out["grant"] = call.grant;
  out["bytes_in"] = call.bytes_in;
  out["bytes_out"] = call.bytes_out;
  out["latency_us"] = call.latency_us;
  return out;
}

Json reads_json(const host::FlowReads& reads) {
  Json out = Json::array();
  for (const host::FlowRead& read : reads.first) {
    Json each{{"call", read.call}, {"function", read.function}};
    if (!read.target.empty()) each["target"] = read.target;
    out.push_back(std::move(each));
  }
  return out;
}

Json flows_json(const host::FlowReport& flows) {
  const host::FlowState& state = flows.state;
  Json out{{"is_closed", state.is_closed()},
           {"private_reads", reads_json(state.private_reads)},
           {"untrusted_reads", reads_json(state.untrusted_reads)}};
  if (const uint64_t more = state.private_reads.more + state.untrusted_reads.more; more != 0)
    out["more_reads"] = more;
  out["egress"] = Json::array();
  for (const host::FlowEgress& each : flows.egress) {
    Json entry{{"call", each.call}, {"function", each.function}};
    if (!each.target.empty()) entry["target"] = each.target;
    entry["decision"] = host::name_of(each.decision);
    out["egress"].push_back(std::move(entry));
  }
  if (flows.more_egress != 0) out["more_egress"] = flows.more_egress;
  return out;
}

Json values_json(const std::vector<ReportValue>& values) {
  Json out = Json::array();
  for (const ReportValue& value : values) out.push_back({{"type", value.type}, {"value", value_json(value)}});
  return out;
}

Json waiting_json(const WaitingCall& call) {
  Json out{{"name", call.name}, {"arguments", call.arguments}, {"keywords", call.keywords}};
  if (!call.values.empty()) out["values"] = values_json(call.values);
  if (!call.note.empty()) out["note"] = call.note;
  return out;
}

// {"text/plain":"4","image/png":{"base64":"…"}}
Json rich_json(const RichValue& value) {
  Json out = Json::object();
  for (const MimePart& part : value)
    if (part.is_base64) out[part.type] = {{"base64", part.data}};
    else out[part.type] = part.data;
  return out;
}

}  // namespace

std::string json_of(const std::vector<ReportValue>& values) {
  Json out = Json::array();
  for (const ReportValue& value : values) out.push_back(value_json(value));
  return out.dump();
}

std::string render_json(const Report& report, bool pretty) {
  Json out{{"outcome", name_of(report.outcome)}};
  if (!report.errors.empty()) out["error"] = error_json(report.errors.front());
  for (size_t i = 1; i < report.errors.size(); ++i)
    out["more_errors"].push_back(error_json(report.errors[i]));
  out["results"] = values_json(report.results);
  out["result"] = report.result;
  if (!report.value.empty()) out["value"] = rich_json(report.value);
  for (const RichValue& value : report.displays) out["displays"].push_back(rich_json(value));
  for (const ReportFile& file : report.files)
    out["files"].push_back({{"path", file.path}, {"size_bytes", file.size_bytes}});
  if (!report.kept.empty()) out["kept"] = report.kept;
  if (report.exit_code) out["exit_code"] = *report.exit_code;
  if (report.submitted) out["answer"] = report.answer;
  out["stdout"] = report.stdout_text;
  out["stderr"] = report.stderr_text;
  if (!is_utf8(report.stdout_text)) out["stdout_base64"] = base64_encode(report.stdout_text);
  if (!is_utf8(report.stderr_text)) out["stderr_base64"] = base64_encode(report.stderr_text);
  out["fuel_used"] = report.fuel_used;
  out["cost_version"] = report.cost_version;
  out["memory_peak_bytes"] = report.memory_peak_bytes;
  out["tokens_used"] = report.tokens_used;
  out["compile_us"] = report.compile_us;
  out["run_us"] = report.run_us;
  out["host_calls"] = Json::array();
  for (const HostCallRecord& call : report.host_calls) out["host_calls"].push_back(call_json(call));
  if (report.host_calls_dropped != 0) out["host_calls_dropped"] = report.host_calls_dropped;
  if (report.flows) out["flows"] = flows_json(*report.flows);
  if (report.output_bytes_cut != 0) out["output_bytes_cut"] = report.output_bytes_cut;
  if (report.snapshot_bytes) out["snapshot_bytes"] = *report.snapshot_bytes;
  for (const WaitingCall& call : report.waits_for) out["waits_for"].push_back(waiting_json(call));
  if (!report.platform.empty()) out["platform"] = report.platform;
  for (const LimitReached& each : report.limits_reached)
    out["limits_reached"].push_back({{"limit", each.name}, {"times", each.times}});
  if (!report.kind_reason.empty()) out["kind_reason"] = report.kind_reason;
  return out.dump(pretty ? 2 : -1, ' ', false, Json::error_handler_t::replace);
}

// -- text ---------------------------------------------------------------------------

namespace {

std::string place_text(const ReportPlace& place) {
  std::string out;
  if (!place.file.empty()) out += place.file + (place.line != 0 ? ":" + std::to_string(place.line) : "");
  else if (place.line != 0) out += "line " + std::to_string(place.line);
  if (place.line != 0 && place.column != 0) out += ":" + std::to_string(place.column);
  if (!place.function.empty()) out += (out.empty() ? "in " : " in ") + place.function;
  if (place.line == 0 && place.offset != 0)
    out += (out.empty() ? "at byte " : " at byte ") + std::to_string(place.offset);
  return out;
}

// Names and arguments come from the program: they must not be able to look like lines of Membrane's own.
std::string on_one_line(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (c == '\n') out += "\\n";
    else if (c == '\r') out += "\\r";
    else out += c;
  return out;
}

// As the language prints it, without the last line, which repeats the message.
std::string traceback_text(const ReportError& error) {
  std::string out = error.traceback;
  if (!out.ends_with('\n')) out += "\n";
  if (!error.hint.empty()) out += "  hint: " + on_one_line(error.hint) + "\n";
  return out;
}

// The callers; equal ones in a row, as in a deep recursion, share one line.
std::string backtrace_text(std::span<const ReportPlace> frames) {
  std::string out;
  for (size_t i = 0; i < frames.size();) {
    size_t end = i + 1;
    while (end < frames.size() && frames[end] == frames[i]) ++end;
    out += "  called from " + on_one_line(place_text(frames[i]));
    if (const size_t more = end - i - 1; more != 0)
      out += " (repeated " + std::to_string(more) + (more == 1 ? " time)" : " times)");
    out += "\n";
    i = end;
  }
  return out;
}

std::string error_text(const ReportError& error) {
  if (!error.traceback.empty()) return traceback_text(error);
  std::string out = "error[" + error.code + "]";
  if (const std::string place = place_text(error.place); !place.empty()) out += " " + on_one_line(place);
  out += ": " + on_one_line(error.message) + "\n";
  if (!error.hint.empty()) out += "  hint: " + on_one_line(error.hint) + "\n";
  return out + backtrace_text(error.backtrace);
}

// Calls of one function with the same result: a single one, or all of them.
struct AlikeCalls {
  const HostCallRecord* first = nullptr;
  const HostCallRecord* last = nullptr;
  uint64_t count = 0, bytes_in = 0, bytes_out = 0, latency_us = 0;

  void add(const HostCallRecord& call) {
    if (first == nullptr) first = &call;
    last = &call;
    ++count;
    bytes_in += call.bytes_in;
    bytes_out += call.bytes_out;
    latency_us += call.latency_us;
  }
};

// The calls in order. If a function had the same result (errno, and the missing grant) more than a few times, all
// those calls are at the place of the first, whatever came in between.
std::vector<AlikeCalls> fold(std::span<const HostCallRecord> calls) {
  constexpr uint64_t kMostSingly = 8;
  using Key = std::tuple<std::string_view, std::string_view, std::string_view>;
  const auto key_of = [](const HostCallRecord& call) { return Key{call.name, call.error, call.grant}; };
  std::map<Key, uint64_t> counts;
  for (const HostCallRecord& call : calls) ++counts[key_of(call)];
  std::vector<AlikeCalls> folded;
  std::map<Key, size_t> places;
  for (const HostCallRecord& call : calls) {
    const Key key = key_of(call);
    if (counts[key] <= kMostSingly) {
      folded.emplace_back().add(call);
      continue;
    }
    const auto [place, is_new] = places.emplace(key, folded.size());
    if (is_new) folded.emplace_back();
    folded[place->second].add(call);
  }
  return folded;
}

// An empty last argument, such as the body of a GET, is not shown.
std::string_view shown_arguments(std::string_view arguments) {
  constexpr std::string_view kEmpty = ", ";
  while (arguments.ends_with(kEmpty)) arguments.remove_suffix(kEmpty.size());
  return arguments;
}

// `errors` may name the grant already.
std::string call_text(const AlikeCalls& calls, const std::vector<ReportError>& errors) {
  const HostCallRecord& call = *calls.first;
  std::string out = call.name;
  if (calls.count > 1) out += ", " + std::to_string(calls.count) + " calls from";
  if (const auto arguments = shown_arguments(call.arguments); !arguments.empty())
    out += " " + std::string(arguments);
  if (calls.count > 1) out += " to " + std::string(shown_arguments(calls.last->arguments));
  out += call.error.empty() ? " -> OK" : " -> " + call.error;
  if (calls.bytes_in != 0) out += ", " + count_of(calls.bytes_in, "byte") + " in";
  if (calls.bytes_out != 0) out += ", " + count_of(calls.bytes_out, "byte") + " out";
  if (!call.reason.empty()) out += ": " + call.reason;
  const bool is_said = std::ranges::any_of(
      errors, [&](const ReportError& error) { return error.hint.find(call.grant) != std::string::npos; });
  if (!call.grant.empty() && !is_said) out += " (would be granted by " + call.grant + ")";
  return on_one_line(out);
}

// "waits for: shop.price ["tea"] {"to":"Ann"}: job 7", one line per call.
std::string waiting_text(const std::vector<WaitingCall>& calls) {
  constexpr size_t kMost = 20, kMostBytes = 300;
  std::string out;
  for (size_t i = 0; i < calls.size() && i < kMost; ++i) {
    std::string call = calls[i].name + " " + calls[i].arguments;
    if (!calls[i].keywords.empty() && calls[i].keywords != "{}") call += " " + calls[i].keywords;
    if (!calls[i].note.empty()) call += ": " + calls[i].note;
    const size_t cut = utf8_cut(call, kMostBytes);
    if (cut < call.size()) call = call.substr(0, cut) + "…";
    out += "waits for: " + on_one_line(call) + "\n";
  }
  if (calls.size() > kMost) out += "and for " + std::to_string(calls.size() - kMost) + " more\n";
  return out;
}

std::string results_text(const Report& report) {
  std::string out;
  for (const ReportValue& value : report.results)
    out += (out.empty() ? "" : ", ") + value.value + " (" + value.type + ")";
  return out;
}

std::string ended(std::string text) {
  if (!text.empty() && text.back() != '\n') text += '\n';
  return text;
}

std::string milliseconds(double us) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f ms", us / 1000);
  return text;
}

uint64_t size_of(const MimePart& part) {
  if (!part.is_base64) return part.data.size();
  const std::string_view data = part.data;
  const auto filling = static_cast<uint64_t>(
      std::ranges::count(data.substr(data.size() - std::min<size_t>(data.size(), 2)), '='));
  return data.size() / 4 * 3 - std::min<uint64_t>(filling, data.size() / 4 * 3);
}

// For what cannot be shown as text: images, and all of a value without a text. `name` is its place in the report:
// "[image/png, 12000 bytes, displays[0] of the report]".
std::string others_text(const RichValue& value, std::string_view name) {
  constexpr size_t kMost = 8, kMostTypeBytes = 100;
  const bool has_text =
      std::ranges::any_of(value, [](const MimePart& part) { return part.type == "text/plain"; });
  std::string out;
  size_t left_out = 0, shown = 0;
  for (const MimePart& part : value) {
    if (has_text && !part.type.starts_with("image/")) continue;
    if (++shown > kMost || part.type.size() > kMostTypeBytes) ++left_out;
    else out += on_one_line(part.type) + ", " + count_of(size_of(part), "byte") + ", ";
  }
  if (left_out != 0) out += count_of(left_out, "more form") + ", ";
  return out.empty() ? out : "[" + out + std::string(name) + " of the report]\n";
}

std::string display_text(const RichValue& value, size_t index) {
  std::string out;
  for (const MimePart& part : value)
    if (part.type == "text/plain") out += ended(part.data);
  return out + others_text(value, "displays[" + std::to_string(index) + "]");
}

// "files: /a (3 bytes), /b (4 bytes) and 7 more", with a newline; "" without any.
template <typename T>
std::string list_text(const char* what, const std::vector<T>& all, std::string (*text_of)(const T&)) {
  constexpr size_t kMost = 20;
  std::string out;
  for (size_t i = 0; i < all.size() && i < kMost; ++i) out += (i == 0 ? what : ", ") + text_of(all[i]);
  if (all.size() > kMost) out += " and " + std::to_string(all.size() - kMost) + " more";
  return out.empty() ? out : out + "\n";
}

std::string files_text(const std::vector<ReportFile>& files) {
  return list_text<ReportFile>("files: ", files, [](const ReportFile& file) {
    return on_one_line(file.path) + " (" + count_of(file.size_bytes, "byte") + ")";
  });
}

}  // namespace

namespace {

std::string shown_text(const Report& report) {
  std::string out = others_text(report.value, "value");
  for (size_t i = 0; i < report.displays.size(); ++i)
    if (const std::string shown = display_text(report.displays[i], i); !shown.empty())
      out += "display: " + shown;
  return out;
}

// The program's output and results, which come before how it ended.
std::string output_text(const Report& report) {
  std::string out = ended(report.stdout_text);
  if (!report.stderr_text.empty()) out += "stderr: " + ended(report.stderr_text);
  if (!report.results.empty()) out += "results: " + results_text(report) + "\n";
  if (!report.result.empty()) out += "result: " + ended(report.result);
  if (report.submitted) out += "answer: " + ended(report.answer);
  return out + shown_text(report);
}

// The reasons, activity and costs follow. Here: what caused egress to close, and what it has stopped since.
std::string flows_text(const host::FlowReport& flows) {
  if (!flows.state.is_closed()) return "";
  std::string out;
  const auto append = [&](const char* kind, const host::FlowReads& reads) {
    const host::FlowRead& first = reads.first.front();
    const uint64_t more = reads.first.size() - 1 + reads.more;
    out += std::string(kind) + ": " + first.function +
           (first.target.empty() ? "" : " of " + on_one_line(first.target)) +
           (more == 0 ? "" : " and " + std::to_string(more) + " more") + "\n";
  };
  append("private", flows.state.private_reads);
  append("of untrusted origin", flows.state.untrusted_reads);
  for (const host::FlowEgress& each : flows.egress)
    out += "egress " + std::string(host::name_of(each.decision)) + ": " + each.function +
           (each.target.empty() ? "" : " of " + on_one_line(each.target)) + "\n";
  return out;
}

// "limits reached: tasks (128 times), disk"
std::string limits_text(const std::vector<LimitReached>& limits) {
  std::string out;
  for (const LimitReached& each : limits)
    out += (out.empty() ? "limits reached: " : ", ") + each.name +
           (each.times > 1 ? " (" + std::to_string(each.times) + " times)" : "");
  return out.empty() ? out : out + "\n";
}

std::string cut_text(uint64_t bytes) {
  return count_of(bytes, "byte") + " of output " + (bytes == 1 ? "was" : "were") + " cut";
}

std::string account_text(const Report& report) {
  std::string out;
  for (const ReportError& error : report.errors) out += error_text(error);
  if (report.output_bytes_cut != 0)
    out += cut_text(report.output_bytes_cut) + ": the output limit is reached\n";
  for (const AlikeCalls& calls : fold(report.host_calls))
    out += (calls.first->allowed ? "call: " : "denied: ") + call_text(calls, report.errors) + " [" +
           milliseconds(static_cast<double>(calls.latency_us)) + "]\n";
  out += waiting_text(report.waits_for);
  if (report.flows) out += flows_text(*report.flows);
  out += files_text(report.files);
  out += list_text<std::string>("kept: ", report.kept,
                                [](const std::string& path) { return on_one_line(path); });
  if (report.exit_code) out += "exit code: " + std::to_string(*report.exit_code) + "\n";
  if (report.host_calls_dropped != 0)
    out += "and " + count_of(report.host_calls_dropped, "more call") +
           (report.host_calls_dropped == 1 ? " that is not listed\n" : " that are not listed\n");
  // Linux programs have no fuel, and are not compiled.
  const bool is_linux = !report.platform.empty();
  if (!is_linux) out += "fuel: " + std::to_string(report.fuel_used) + ", ";
  out += "memory: " + std::to_string(report.memory_peak_bytes >> 10) + " KiB, ";
  // A language comes compiled.
  if (is_linux || report.compile_us != 0)
    out += (is_linux ? "started in " : "compiled in ") + milliseconds(report.compile_us) + ", ";
  out += "ran " + milliseconds(report.run_us);
  if (report.tokens_used != 0) out += ", tokens: " + std::to_string(report.tokens_used);
  if (is_linux) out += ", platform: " + report.platform;
  out += "\n";
  out += limits_text(report.limits_reached);
  if (!report.kind_reason.empty()) out += "kind: linux, since " + on_one_line(report.kind_reason) + "\n";
  if (report.snapshot_bytes == 0) return out + "no snapshot: the program ended before it was to be frozen\n";
  if (report.snapshot_bytes) out += "snapshot: " + count_of(*report.snapshot_bytes, "byte") + "\n";
  return out;
}

}  // namespace

std::string render_shown(const Report& report) { return printable(shown_text(report)); }

std::string render_text(const Report& report, bool colour) {
  const bool ok = report.outcome == Outcome::kOk || report.outcome == Outcome::kFrozen ||
                  report.outcome == Outcome::kWaiting;
  std::string out = printable(output_text(report));
  if (colour) out += ok ? terminal::kGreen : terminal::kRed;
  out += "outcome: " + std::string(name_of(report.outcome));
  if (colour) out += terminal::kPlain;
  if (report.outcome != Outcome::kOk) out += " (" + std::string(describe(report.outcome)) + ")";
  return out + "\n" + printable(account_text(report));
}

// -- for a model -----------------------------------------------------------------------

namespace {

// At most `max_bytes` of `text`: two thirds from its start, one third from its end, and between them how much was
// cut.
std::string cut_in_the_middle(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return std::string(text);
  constexpr size_t kMarkBytes = 40;
  const size_t room = max_bytes > kMarkBytes ? max_bytes - kMarkBytes : 0;
  const size_t most = room * 2 / 3, head = utf8_cut(text, most);
  size_t tail = text.size() - (room - most);
  while (tail < text.size() && !begins_character(text[tail])) ++tail;
  const std::string mark = "\n[… " + count_of(tail - head, "byte") + " cut …]\n";
  if (mark.size() > max_bytes) return {};
  return std::string(text.substr(0, head)) + mark + std::string(text.substr(tail));
}

std::string utf8_of(const std::string& bytes) { return is_utf8(bytes) ? bytes : utf8_repair(bytes); }

struct Section {
  std::string title;
  std::string text;
};

// Libraries ask whether a file is there before they write it. In a program that succeeded, that is no failure.
bool is_library_probe(const HostCallRecord& call, Outcome outcome) {
  return outcome == Outcome::kOk && call.allowed && call.name == "fs.status" && call.error == "ENOENT";
}

// What a model can act on, most important first: the outcome, the reason, the output, refused calls.
std::vector<Section> sections_of(const Report& report) {
  std::vector<Section> sections;
  std::string errors, denied;
  constexpr size_t kMaxErrors = 6, kMaxDenied = 6;
  for (size_t i = 0; i < report.errors.size() && i < kMaxErrors; ++i) errors += error_text(report.errors[i]);
  if (report.errors.size() > kMaxErrors)
    errors += "and " + count_of(report.errors.size() - kMaxErrors, "more error") + "\n";
  size_t failed = 0;
  for (const AlikeCalls& calls : fold(report.host_calls)) {
    if (calls.first->error.empty() || is_library_probe(*calls.first, report.outcome)) continue;
    if (failed < kMaxDenied) denied += call_text(calls, report.errors) + "\n";
    failed += failed < kMaxDenied ? 1 : calls.count;
  }
  if (failed > kMaxDenied) denied += "and " + std::to_string(failed - kMaxDenied) + " more failed calls\n";
  // For other outcomes the error reports it.
  if (report.exit_code.value_or(0) != 0 && report.outcome != Outcome::kTrapped &&
      report.outcome != Outcome::kInvalid)
    sections.push_back({"", "the program ended with exit code " + std::to_string(*report.exit_code) + "\n"});
  if (!errors.empty()) sections.push_back({"", errors});
  if (!denied.empty()) sections.push_back({"failed host calls:\n", denied});
  if (!report.results.empty()) sections.push_back({"results: ", results_text(report) + "\n"});
  if (!report.result.empty()) sections.push_back({"result:\n", ended(report.result)});
  if (const std::string others = others_text(report.value, "value"); !others.empty())
    sections.push_back({"", others});
  if (!report.stdout_text.empty()) sections.push_back({"stdout:\n", ended(utf8_of(report.stdout_text))});
  if (!report.stderr_text.empty()) sections.push_back({"stderr:\n", ended(utf8_of(report.stderr_text))});
  std::string displays;
  for (size_t i = 0; i < report.displays.size(); ++i) displays += display_text(report.displays[i], i);
  if (!displays.empty()) sections.push_back({"displays:\n", displays});
  if (report.flows && report.flows->state.is_closed())
    sections.push_back(
        {"",
         "Private data and text of untrusted origin were read: requests over HTTP and questions to a model " +
             std::string(report.flows->egress.empty() ? "are stopped from now on" : "were held back") +
             " by the trifecta rule, also in the next programs. Finish with what you have.\n"});
  if (report.output_bytes_cut != 0) sections.push_back({"", cut_text(report.output_bytes_cut) + "\n"});
  if (!report.files.empty()) sections.push_back({"", files_text(report.files)});
  return sections;
}

}  // namespace

std::string render_observation(const Report& report, size_t max_bytes) {
  std::string out = "outcome: " + std::string(name_of(report.outcome));
  if (report.outcome != Outcome::kOk) out += " - " + std::string(describe(report.outcome));
  out += "\n";
  const std::vector<Section> sections = sections_of(report);
  // For a Linux sandbox: no fuel, and limits that it may have reached although the command continued.
  const bool is_linux = !report.platform.empty();
  std::string costs = is_linux ? limits_text(report.limits_reached) + "time: " + milliseconds(report.run_us)
                               : "fuel: " + std::to_string(report.fuel_used);
  if (!report.host_calls.empty()) costs += ", host calls: " + std::to_string(report.host_calls.size());
  if (sections.empty() && report.outcome == Outcome::kOk)
    costs =
        (is_linux ? "It printed nothing.\n" : "The program printed nothing and gave no result.\n") + costs;
  size_t room = max_bytes > out.size() + costs.size() ? max_bytes - out.size() - costs.size() : 0;
  // Each section may use what is left, but leaves a share for later ones.
  for (size_t i = 0; i < sections.size(); ++i) {
    const Section& section = sections[i];
    size_t rest = 0;
    for (size_t j = i + 1; j < sections.size(); ++j)
      rest += sections[j].title.size() + sections[j].text.size();
    const size_t later = std::min(rest, room / 2);
    const size_t mine = room - later;
    if (section.title.size() >= mine) continue;
    const std::string text = section.title + cut_in_the_middle(section.text, mine - section.title.size());
    room -= text.size();
    out += text;
  }
  out += costs;
  if (out.size() > max_bytes) out.resize(max_bytes);
  return out;
}

}  // namespace membrane::sandbox
