#include "agent/loop/transcript.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <set>

#include "agent/model/chat_codec.h"
#include "base/json.h"
#include "base/text.h"

namespace membrane::agent {

using Json = nlohmann::ordered_json;

namespace {

constexpr std::string_view kFormat = "membrane-transcript";
constexpr std::array kFinishes{Finish::kStop, Finish::kLength, Finish::kToolCalls, Finish::kFiltered,
                               Finish::kCut};

std::string dump(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json calls_json(const std::vector<ToolCall>& calls) {
  Json out = Json::array();
  for (const ToolCall& call : calls)
    out.push_back({{"id", call.id}, {"name", call.name}, {"arguments", call.arguments}});
  return out;
}

Json totals_of(const Totals& t) {
  return {{"steps", t.steps},
          {"repairs", t.repairs},
          {"model_calls", t.model_calls},
          {"fuel", t.fuel},
          {"host_calls_allowed", t.host_calls_allowed},
          {"host_calls_denied", t.host_calls_denied},
          {"bytes_in", t.bytes_in},
          {"bytes_out", t.bytes_out},
          {"tokens_in", t.tokens_in},
          {"tokens_out", t.tokens_out},
          {"tokens_of_programs", t.tokens_of_programs},
          {"tokens_estimated", t.tokens_estimated},
          {"wall_ms", t.wall_ms}};
}

// The limits for lines of a transcript, and reports: as large as a whole recording, and as deep as any
// foreign JSON.
Json read_line_of(std::string_view text) {
  constexpr JsonLimits kLimits{
      .bytes = Recording::kMaxBytes, .values = 20'000'000, .memory_bytes = 4ull << 30};
  return read_ordered_json(text, "the line", kLimits).value_or(nullptr);
}

}  // namespace

std::string totals_json(const Totals& totals) { return dump(totals_of(totals)); }

// -- writing ---------------------------------------------------------------------------

TranscriptWriter::TranscriptWriter(Write write, std::string_view model, std::string_view policy_json,
                                   std::span<const ActionLanguage> languages,
                                   std::span<const std::string> given)
    : write_(std::move(write)) {
  Json names = Json::array();
  for (const ActionLanguage& language : languages) names.push_back(language.name);
  const Json policy = read_ordered_json(policy_json, "the policy").value_or(nullptr);
  Json line{{"type", "header"}, {"format", kFormat}, {"version", kTranscriptVersion},
            {"model", model},   {"policy", policy},  {"languages", names}};
  if (!given.empty()) line["given"] = given;
  write_(dump(line) + "\n");
}

void TranscriptWriter::on_task(std::string_view task) {
  write_(dump({{"type", "task"}, {"text", task}}) + "\n");
}

void TranscriptWriter::on_reply(const ChatQuery& query, const Completion& completion) {
  Json line{{"type", "reply"},
            {"request",
             {{"messages", query.messages.size()},
              {"tokens", estimate_tokens(query.messages)},
              {"max_tokens", query.max_tokens}}},
            {"content", completion.content}};
  if (!completion.reasoning.empty()) line["reasoning"] = completion.reasoning;
  if (!completion.tool_calls.empty()) line["tool_calls"] = calls_json(completion.tool_calls);
  line["finish"] = name_of(completion.finish);
  line["usage"] = {{"tokens_in", completion.usage.tokens_in},
                   {"tokens_out", completion.usage.tokens_out},
                   {"estimated", completion.usage.estimated}};
  line["attempts"] = completion.attempts;
  write_(dump(line) + "\n");
}

void TranscriptWriter::on_program(const Program& program) {
  write_(dump({{"type", "program"},
               {"language", program.written_in},
               {"name", program.name},
               {"source", program.source},
               {"entry", program.entry},
               {"arguments", program.arguments},
               {"input", program.input}}) +
         "\n");
}

void TranscriptWriter::on_report(const Program&, const sandbox::Report& report) {
  write_("{\"type\":\"report\",\"report\":" + sandbox::render_json(report, false) + "}\n");
}

void TranscriptWriter::on_observation(std::string_view text) {
  write_(dump({{"type", "observation"}, {"text", text}}) + "\n");
}

void TranscriptWriter::on_end(const TaskResult& result) {
  Json line{{"type", "end"}, {"stop", name_of(result.stop)}};
  if (result.stop == Stop::kAnswered) line["answer"] = result.answer;
  if (result.error)
    line["error"] = {{"code", name_of(result.error->code)},
                     {"message", result.error->message},
                     {"hint", result.error->hint}};
  line["totals"] = totals_of(result.totals);
  write_(dump(line) + "\n");
}

// -- reading -------------------------------------------------------------------------------

namespace {

// One line of a file, read field by field; keeps the first error.
class LineReader {
 public:
  LineReader(const Json& line, std::string place) : line_(line), place_(std::move(place)) {}

  std::string text(const char* name, bool required = true) {
    const Json* value = find(name, required);
    if (value != nullptr && !value->is_string()) wrong(std::string("\"") + name + "\" is not a string");
    return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
  }
  uint64_t count(const Json& object, const char* name) {
    const auto at = object.find(name);
    if (at == object.end()) return 0;
    if (!at->is_number_unsigned()) wrong(std::string("\"") + name + "\" is not a whole number");
    return at->is_number_unsigned() ? at->get<uint64_t>() : 0;
  }
  const Json* find(const char* name, bool required) {
    const auto at = line_.find(name);
    if (at != line_.end()) return &*at;
    if (required) wrong(std::string("\"") + name + "\" is missing");
    return nullptr;
  }
  void wrong(const std::string& what) {
    if (status_)
      status_ =
          fail(ErrorCode::kInvalidInput, place_ + what + ".", "docs/agent.md has the transcript's form.");
  }
  [[nodiscard]] const Status& status() const { return status_; }

 private:
  const Json& line_;
  std::string place_;
  Status status_;
};

std::vector<std::string> texts_of(LineReader& in, const char* name) {
  std::vector<std::string> texts;
  const Json* list = in.find(name, false);
  if (list == nullptr) return texts;
  if (!list->is_array()) in.wrong(std::string("\"") + name + "\" is not a list");
  for (const Json& item : *list) {
    if (!item.is_string()) in.wrong(std::string("\"") + name + "\" holds what is not a string");
    else texts.push_back(item.get<std::string>());
  }
  return texts;
}

std::vector<ToolCall> calls_of(LineReader& in) {
  std::vector<ToolCall> calls;
  const Json* list = in.find("tool_calls", false);
  if (list == nullptr) return calls;
  if (!list->is_array() || list->size() > kMaxToolCalls) {
    in.wrong("\"tool_calls\" is not a list of at most " + std::to_string(kMaxToolCalls));
    return calls;
  }
  for (const Json& item : *list) {
    const bool named = item.is_object() && item.contains("name") && item["name"].is_string();
    const bool called = named && item.contains("arguments") &&
                        (item["arguments"].is_object() || item["arguments"].is_string());
    if (!called || (item.contains("id") && !item["id"].is_string())) {
      in.wrong("a tool call is not {\"name\": …, \"arguments\": …}");
      return calls;
    }
    const Json& arguments = item["arguments"];
    calls.push_back(
        {item.contains("id") ? item["id"].get<std::string>() : "call_" + std::to_string(calls.size() + 1),
         item["name"].get<std::string>(),
         arguments.is_string() ? arguments.get<std::string>() : dump(arguments)});
  }
  return calls;
}

Finish finish_of(LineReader& in) {
  const std::string name = in.text("finish", false);
  if (name.empty()) return Finish::kStop;
  for (const Finish finish : kFinishes)
    if (name == name_of(finish)) return finish;
  in.wrong("\"finish\" is " + name.substr(0, 32) + ", which is nothing");
  return Finish::kStop;
}

Completion reply_of(LineReader& in, bool plain) {
  Completion reply;
  reply.tool_calls = calls_of(in);
  reply.content = in.text("content", reply.tool_calls.empty());
  reply.reasoning = in.text("reasoning", false);
  reply.finish = finish_of(in);
  reply.usage.estimated = true;
  if (const Json* usage = in.find("usage", !plain); usage != nullptr) {
    if (!usage->is_object()) in.wrong("\"usage\" is not an object");
    else
      reply.usage = {in.count(*usage, "tokens_in"), in.count(*usage, "tokens_out"),
                     usage->value("estimated", Json(false)) == Json(true)};
  }
  return reply;
}

Program program_of(LineReader& in) {
  Program program;
  program.written_in = in.text("language", false);
  if (program.written_in.empty()) program.written_in = kWat;
  program.source = in.text("source");
  program.name = in.text("name");
  program.entry = in.text("entry", false);
  program.input = in.text("input", false);
  program.arguments = texts_of(in, "arguments");
  return program;
}

void read_header(LineReader& in, Recording& recording) {
  if (in.text("format") != kFormat) in.wrong("this is no Membrane transcript");
  const Json* version = in.find("version", true);
  if (version != nullptr && *version != Json(1) && *version != Json(kTranscriptVersion))
    in.wrong("the transcript's version is " + dump(*version).substr(0, 16) +
             "; this Membrane reads versions 1 and " + std::to_string(kTranscriptVersion));
  recording.model = in.text("model");
  recording.languages = texts_of(in, "languages");
  if (recording.languages.empty()) recording.languages.emplace_back(kWat);
  recording.given = texts_of(in, "given");
  if (const Json* policy = in.find("policy", true); policy != nullptr) recording.policy_json = dump(*policy);
}

void read_report(LineReader& in, Recording& recording) {
  const Json* report = in.find("report", true);
  if (report == nullptr) return;
  if (!report->is_object()) in.wrong("\"report\" is not an object");
  if (recording.runs.empty() || !recording.runs.back().report.empty())
    in.wrong("a report without a program before it");
  else recording.runs.back().report = dump(*report);
}

void read_line(LineReader& in, const std::string& type, Recording& recording) {
  if (type == "task") recording.tasks.push_back(in.text("text"));
  else if (type == "reply") recording.replies.push_back(reply_of(in, false));
  else if (type == "program") recording.runs.push_back({program_of(in), ""});
  else if (type == "report") read_report(in, recording);
  else if (type == "end") {
    if (in.text("stop") == "answered") recording.answers.push_back(in.text("answer"));
  } else if (type != "observation") {
    in.wrong("a line of the type \"" + type.substr(0, 32) + "\" is unknown");
  }
}

void read_plain(LineReader& in, const Json& line, Recording& recording) {
  static const std::set<std::string> kKeys{"content", "reasoning", "tool_calls", "finish", "usage"};
  for (const auto& [key, value] : line.items())
    if (!kKeys.contains(key)) in.wrong("an answer has no \"" + key.substr(0, 32) + "\"");
  recording.replies.push_back(reply_of(in, true));
}

}  // namespace

Result<Recording> Recording::parse(std::string_view text, std::string_view name) {
  if (text.size() > kMaxBytes)
    return fail(ErrorCode::kExhausted,
                std::string(name) + " is longer than " + std::to_string(kMaxBytes) + " bytes.");
  Recording recording;
  bool first = true;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view bytes = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (bytes.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const Json line = read_line_of(bytes);
    LineReader in(line, std::string(name) + ":" + std::to_string(number) + ": ");
    if (!line.is_object()) {
      in.wrong("the line is not a JSON object");
      return std::unexpected(in.status().error());
    }
    if (first) recording.plain = !line.contains("type");
    const std::string type = recording.plain ? "" : in.text("type");
    if (recording.plain) read_plain(in, line, recording);
    else if (first != (type == "header"))
      in.wrong(first ? "a transcript begins with its header" : "a second header");
    else if (first) read_header(in, recording);
    else read_line(in, type, recording);
    if (!in.status()) return std::unexpected(in.status().error());
    first = false;
  }
  if (first)
    return fail(ErrorCode::kInvalidInput, std::string(name) + " holds no line.",
                "docs/agent.md has the transcript's form.");
  return recording;
}

Result<Recording> Recording::load(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in)
    return fail(ErrorCode::kNotFound, "The recording " + path + " cannot be read.",
                "Name a file that --transcript or /save has written.");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  return parse(text, path);
}

// -- replaying -----------------------------------------------------------------------------------

std::string RecordedModel::name() const {
  return recording_.model.empty() ? "recorded answers" : "recording of " + recording_.model;
}

Result<Completion> RecordedModel::complete(const ChatQuery& query, const ChatControl& control) {
  if (control.cancel != nullptr && control.cancel->load())
    return fail(ErrorCode::kCancelled, "The request to the model was cancelled.");
  if (next_ == recording_.replies.size())
    return fail(ErrorCode::kExhausted,
                "The recording has " + count_of(next_, "reply") +
                    ", and the loop asks for another: it went another way than when it was recorded.",
                "Compare the observations; a page, a file or the policy may have changed.");
  Completion reply = recording_.replies[next_++];
  if (reply.usage.total() == 0) {
    reply.usage = {estimate_tokens(query.messages), estimate_tokens(reply.content), true};
    for (const ToolCall& call : reply.tool_calls) reply.usage.tokens_out += estimate_tokens(call.arguments);
  }
  if (control.on_thought && !reply.reasoning.empty()) control.on_thought(reply.reasoning);
  if (control.on_text && !reply.content.empty()) control.on_text(reply.content);
  return reply;
}

void ReplayCheck::diverged(const std::string& what) {
  divergences_.push_back("program " + std::to_string(next_ + 1) + ": " + what);
}

void ReplayCheck::on_program(const Program& program) {
  if (recording_.plain) return;
  if (next_ >= recording_.runs.size()) return diverged("the recording has no such program");
  const Program& recorded = recording_.runs[next_].program;
  if (program.written_in != recorded.written_in)
    diverged("it is in " + program.written_in + ", and was in " + recorded.written_in.substr(0, 32));
  if (program.source != recorded.source)
    diverged("its source is another than the recorded one (a catalog program may have changed)");
  if (program.entry != recorded.entry || program.arguments != recorded.arguments ||
      program.input != recorded.input)
    diverged("its entry, arguments or input are other than the recorded ones");
}

namespace {

// Parts of a report that depend on the run's time and place.
void drop_measures(Json& report) {
  for (const char* name : {"compile_us", "run_us", "memory_peak_bytes"}) report.erase(name);
  if (const auto calls = report.find("host_calls"); calls != report.end() && calls->is_array())
    for (Json& call : *calls)
      if (call.is_object()) call.erase("latency_us");
}

std::string shortly(const Json& value) {
  std::string text = dump(value);
  constexpr size_t kMaxBytes = 60;
  return text.size() <= kMaxBytes ? text : text.substr(0, kMaxBytes) + "…";
}

}  // namespace

void ReplayCheck::on_report(const Program&, const sandbox::Report& report) {
  if (recording_.plain) return;
  if (next_ < recording_.runs.size() && !recording_.runs[next_].report.empty()) {
    Json was = read_line_of(recording_.runs[next_].report);
    Json is = read_line_of(sandbox::render_json(report, false));
    drop_measures(was);
    drop_measures(is);
    std::set<std::string> names;
    for (const auto& [name, value] : was.items()) names.insert(name);
    for (const auto& [name, value] : is.items()) names.insert(name);
    for (const std::string& name : names) {
      const Json a = was.contains(name) ? was[name] : Json();
      const Json b = is.contains(name) ? is[name] : Json();
      if (a != b) diverged(name + " was " + shortly(a) + ", is " + shortly(b));
    }
  }
  ++next_;
}

}  // namespace membrane::agent
