#include "mcp/tools.h"

#include <algorithm>
#include <utility>

#include "base/base64.h"
#include "base/text.h"
#include "base/utf8.h"

namespace membrane::mcp {
namespace {

constexpr int64_t kMostForks = 16;
constexpr int64_t kMostReadBytes = 1 << 20;
constexpr int64_t kUsualReadBytes = 64 << 10;
constexpr int64_t kMostWallMs = 7ll * 86'400'000;
constexpr size_t kMaxPolicyBytes = 3'000;  // in a description

// -- what the tools do ----------------------------------------------------------------------------------------------

Program program_of(const Arguments& arguments) {
  Program program = {.language = arguments.text("language"),
                     .code = arguments.text("code"),
                     .input = arguments.text("stdin"),
                     .arguments = arguments.texts("arguments"),
                     .seal = arguments.flag("seal")};
  if (const auto wall = arguments.integer("timeout_ms")) program.wall_ms = static_cast<uint64_t>(*wall);
  return program;
}

ToolAnswer run_code(const ToolCall& call) {
  const auto ran = call.backend.run(call.caller, program_of(call.arguments));
  return ran ? answer_of(*ran, "") : failed(ran.error());
}

ToolAnswer create_session(const ToolCall& call) {
  const auto made =
      call.backend.create_session(call.caller, call.arguments.text("language"), call.arguments.flag("seal"));
  if (!made) return failed(made.error());
  return said("session: " + made->id + " (" + made->language + ")", data_of(*made));
}

ToolAnswer run_in_session(const ToolCall& call) {
  const std::string session = call.arguments.text("session");
  const auto ran = call.backend.exec(call.caller, session, program_of(call.arguments));
  return ran ? answer_of(*ran, session) : failed(ran.error());
}

ToolAnswer fork_session(const ToolCall& call) {
  const auto count = static_cast<size_t>(call.arguments.integer("count").value_or(1));
  const auto made = call.backend.fork_session(call.caller, call.arguments.text("session"), count);
  if (!made) return failed(made.error());
  OrderedJson sessions = OrderedJson::array();
  std::string text = "sessions:";
  for (const SessionInfo& each : *made) {
    sessions.push_back(data_of(each));
    text += " " + each.id;
  }
  return said(std::move(text), {{"sessions", std::move(sessions)}});
}

ToolAnswer close_session(const ToolCall& call) {
  const std::string session = call.arguments.text("session");
  if (const Status closed = call.backend.close_session(call.caller, session); !closed)
    return failed(closed.error());
  return said("closed " + session, {{"session", session}});
}

ToolAnswer list_files(const ToolCall& call) {
  const auto listed = call.backend.list_files(call.caller, call.arguments.text("session"));
  if (!listed) return failed(listed.error());
  constexpr size_t kMost = 1'000;
  OrderedJson files = OrderedJson::array();
  std::string text;
  for (const sandbox::ReportFile& file : *listed) {
    if (files.size() == kMost) break;
    files.push_back({{"path", file.path}, {"size_bytes", file.size_bytes}});
    text += file.path + "  " + count_of(file.size_bytes, "byte") + "\n";
  }
  if (listed->empty()) text = "The session has made no files.";
  else if (listed->size() > kMost) text += "and " + std::to_string(listed->size() - kMost) + " more\n";
  return said(std::move(text), {{"files", std::move(files)}, {"count", listed->size()}});
}

// Absolute. A relative path starts where programs start, since models name files like that.
std::string path_of(const ToolCall& call) {
  std::string path = call.arguments.text("path");
  while (path.starts_with("./")) path.erase(0, 2);
  return path.empty() || path.starts_with('/') ? path : "/" + path;
}

// A part of a file as text, if it is UTF-8 except for characters that the boundaries cut; otherwise base64.
ToolAnswer read_file(const ToolCall& call) {
  const std::string path = path_of(call);
  const auto bytes = call.backend.read_file(call.caller, call.arguments.text("session"), path);
  if (!bytes) return failed(bytes.error());
  const auto offset = static_cast<size_t>(call.arguments.integer("offset").value_or(0));
  const auto most = static_cast<size_t>(call.arguments.integer("max_bytes").value_or(kUsualReadBytes));
  if (offset > bytes->size())
    return failed(
        {ErrorCode::kInvalidArgument,
         "offset is " + std::to_string(offset) + ", and " + path + " has " + count_of(bytes->size(), "byte"),
         "Use an offset inside the file."});
  std::string_view part = std::string_view(*bytes).substr(offset, most);
  constexpr size_t kCharacter = 4;
  const size_t whole = utf8_valid_prefix(part);
  const bool is_cut = offset + part.size() < bytes->size();
  const bool is_text = whole == part.size() || (is_cut && part.size() - whole < kCharacter && whole > 0);
  if (is_text) part = part.substr(0, whole);
  const std::string_view image = offset == 0 && !is_cut ? image_type_of(*bytes) : "";
  OrderedJson data = {{"path", path},
                      {"size_bytes", bytes->size()},
                      {"offset", offset},
                      {"encoding", is_text ? "utf-8" : "base64"},
                      {"content", is_text ? std::string(part) : base64_encode(part)}};
  if (offset + part.size() < bytes->size()) data["next_offset"] = offset + part.size();
  ToolAnswer answer;
  if (!image.empty()) answer.content.push_back(image_content(base64_encode(part), image));
  else answer.content.push_back(text_content(data["content"].get<std::string>()));
  answer.structured = std::move(data);
  return answer;
}

ToolAnswer write_file(const ToolCall& call) {
  std::string bytes = call.arguments.text("content");
  if (call.arguments.text("encoding") == "base64") {
    auto decoded = base64_decode(bytes);
    if (!decoded)
      return failed({ErrorCode::kInvalidArgument, "\"content\" is not base64 (RFC 4648, with padding)",
                     "Encode it again, or remove \"encoding\" for text."});
    bytes = std::move(*decoded);
  }
  const std::string path = path_of(call);
  const Status written = call.backend.write_file(call.caller, call.arguments.text("session"), path, bytes);
  if (!written) return failed(written.error());
  return said("wrote " + count_of(bytes.size(), "byte") + " to " + path,
              {{"path", path}, {"size_bytes", bytes.size()}});
}

ToolAnswer explain_policy(const ToolCall& call) {
  auto policy = call.backend.policy(call.caller, call.arguments.text("session"));
  if (!policy) return failed(policy.error());
  OrderedJson data = {{"explanation", policy->explanation}, {"policy", std::move(policy->json)}};
  return said(std::move(policy->explanation), std::move(data));
}

ToolAnswer get_report(const ToolCall& call) {
  const std::string id = call.arguments.text("report");
  const auto report = call.backend.report(call.caller, id);
  if (!report) return failed(report.error());
  auto data = read_ordered_json(*report, "the report", kMessageLimits);
  if (!data) return failed(data.error());
  const bool is_short = report->size() <= kObservationBytes;
  return said(is_short ? *report : report->substr(0, utf8_cut(*report, kObservationBytes)) + "…",
              {{"report", id}, {"content", std::move(*data)}});
}

ToolAnswer list_reports(const ToolCall& call) {
  OrderedJson reports = OrderedJson::array();
  std::string text;
  const auto kept = call.backend.reports(call.caller);
  if (!kept) return failed(kept.error());
  for (const ReportInfo& each : *kept) {
    OrderedJson one = {{"report", each.id}, {"language", each.language}, {"outcome", each.outcome}};
    if (!each.session.empty()) one["session"] = each.session;
    text += each.id + "  " + each.language + "  " + each.outcome +
            (each.session.empty() ? "" : "  in " + each.session) + "\n";
    reports.push_back(std::move(one));
  }
  if (text.empty()) text = "Nothing has run yet.";
  return said(std::move(text), {{"reports", std::move(reports)}});
}

ToolAnswer get_receipt(const ToolCall& call) {
  const std::string id = call.arguments.text("report");
  const auto receipt = call.backend.receipt(call.caller, id);
  if (!receipt) return failed(receipt.error());
  OrderedJson data = {{"report", id}, {"receipt", receipt->text}};
  if (call.arguments.flag("private")) data["private"] = receipt->private_text;
  return said(receipt->text, std::move(data));
}

// -- what is said of them -------------------------------------------------------------------------------------------

OrderedJson object_schema(OrderedJson properties) {
  OrderedJson required = OrderedJson::array();
  for (const auto& [name, schema] : properties.items())
    if (!schema.contains("description")) required.push_back(name);
  return {{"type", "object"}, {"properties", std::move(properties)}, {"required", std::move(required)}};
}

OrderedJson list_schema(OrderedJson of) { return {{"type", "array"}, {"items", std::move(of)}}; }

const OrderedJson& text_schema() {
  static const OrderedJson schema = {{"type", "string"}};
  return schema;
}
const OrderedJson& count_schema() {
  static const OrderedJson schema = {{"type", "integer"}, {"minimum", 0}};
  return schema;
}

Parameter session_parameter() {
  return {.name = "session",
          .description = "The handle that create_session or fork_session returned",
          .is_required = true};
}

std::vector<std::string> names_of(const Offer& offer, bool in_sessions) {
  std::vector<std::string> names;
  for (const OfferedLanguage& language : offer.languages)
    if (!in_sessions || language.has_sessions) names.push_back(language.name);
  return names;
}

Parameter language_parameter(const Offer& offer, bool in_sessions) {
  return {.name = "language",
          .type = ParameterType::kLanguage,
          .description = "The language of the code",
          .is_required = true,
          .choices = names_of(offer, in_sessions)};
}

std::vector<Parameter> code_parameters() {
  return {{.name = "code", .description = "The program's text", .is_required = true},
          {.name = "stdin", .description = "The program's standard input"}};
}

Parameter seal_parameter(std::string what) {
  return {.name = "seal", .type = ParameterType::kFlag, .description = std::move(what)};
}

Parameter timeout_parameter() {
  return {.name = "timeout_ms",
          .type = ParameterType::kInteger,
          .description = "A lower time limit than the policy's, in milliseconds",
          .least = 1,
          .most = kMostWallMs};
}

std::string policy_of(const Offer& offer) {
  if (offer.policy.size() <= kMaxPolicyBytes) return offer.policy;
  return offer.policy.substr(0, utf8_cut(offer.policy, kMaxPolicyBytes)) + "…\nexplain_policy has the rest.";
}

// What a model would otherwise assume.
std::string differences_of(const Offer& offer) {
  const bool has_python = std::ranges::any_of(
      offer.languages, [](const OfferedLanguage& language) { return language.name == "python"; });
  if (!has_python) return "";
  return "\nIn Python, int as a dtype of numpy, as in np.arange and an array's astype(int), has 32 bits and "
         "overflows silently: write \"int64\" for large values.";
}

// What programs of a session share, by the kinds of languages that are offered.
std::string shared_of(const Offer& offer) {
  const auto is_linux = [](const OfferedLanguage& language) {
    return language.name == "linux" || language.name.starts_with("linux:");
  };
  bool has_linux = false, has_others = false;
  for (const OfferedLanguage& each : offer.languages)
    if (each.has_sessions) (is_linux(each) ? has_linux : has_others) = true;
  const std::string of_linux =
      "share files and background processes; each starts in a new shell, so directory and variables do not "
      "persist";
  if (!has_linux) return "programs in it run one after another, and share variables, imports and files.";
  if (!has_others) return "scripts in it run one after another, and " + of_linux + ".";
  return "programs in it run one after another, and share variables, imports and files; linux scripts " +
         of_linux + ".";
}

Tool run_code_tool(const Offer& offer) {
  Tool tool = {.name = "run_code",
               .title = "Run code",
               .description =
                   "Runs one program in a fresh sandbox, which then ends, and returns what it "
                   "printed, the value of its last expression, errors with their place, and what was "
                   "refused. What programs here may do:\n" +
                   policy_of(offer) + differences_of(offer),
               .parameters = {language_parameter(offer, false)},
               .output_schema = schema_of_run(),
               .is_open_world = true,
               .call = run_code};
  for (Parameter& each : code_parameters()) tool.parameters.push_back(std::move(each));
  tool.parameters.push_back({.name = "arguments",
                             .type = ParameterType::kTexts,
                             .description = "The program's arguments (sys.argv[1:], process.argv.slice(2))"});
  tool.parameters.push_back(timeout_parameter());
  tool.parameters.push_back(seal_parameter("Make a signed receipt of the run, which get_receipt returns"));
  return tool;
}

void add_session_tools(std::vector<Tool>& tools, const Offer& offer) {
  tools.push_back(
      {.name = "create_session",
       .title = "Create a session",
       .description = "Starts a session: " + shared_of(offer) + " There can be " +
                      std::to_string(offer.most_sessions) +
                      " at once; close_session makes room. Programs in it may do what run_code describes.",
       .parameters = {language_parameter(offer, true),
                      seal_parameter(
                          "Make a signed receipt of each of its programs, which get_receipt returns")},
       .output_schema = schema_of_session(),
       .call = create_session});
  Tool run = {
      .name = "run_in_session",
      .title = "Run code in a session",
      .description =
          "Runs a program in a session, and returns what run_code returns. A program that runs out of fuel, "
          "time or memory is undone; after an error of the language, what it did before stays. What a linux "
          "script did always stays. One program at a time runs in a session.",
      .parameters = {session_parameter()},
      .output_schema = schema_of_run(),
      .is_open_world = true,
      .call = run_in_session};
  for (Parameter& each : code_parameters()) run.parameters.push_back(std::move(each));
  run.parameters.push_back(timeout_parameter());
  tools.push_back(std::move(run));
  tools.push_back(
      {.name = "fork_session",
       .title = "Fork a session",
       .description =
           "Makes independent copies of a session, with its variables, files and processes: to try several "
           "things from one state, or to keep a state to return to.",
       .parameters = {session_parameter(),
                      {.name = "count",
                       .type = ParameterType::kInteger,
                       .description = "How many; 1 by default",
                       .least = 1,
                       .most = kMostForks}},
       .output_schema = object_schema({{"sessions", list_schema(schema_of_session())}}),
       .call = fork_session});
  tools.push_back({.name = "close_session",
                   .title = "Close a session",
                   .description = "Ends a session; its variables and files are lost. Its reports stay.",
                   .parameters = {session_parameter()},
                   .output_schema = object_schema({{"session", text_schema()}}),
                   .destroys = true,
                   .call = close_session});
}

void add_file_tools(std::vector<Tool>& tools) {
  tools.push_back(
      {.name = "list_files",
       .title = "List a session's files",
       .description =
           "Lists the files that programs of a session made or changed, or that write_file wrote. Granted "
           "directories of the host are not included; programs can list those.",
       .parameters = {session_parameter()},
       .output_schema = object_schema(
           {{"files", list_schema(object_schema({{"path", text_schema()}, {"size_bytes", count_schema()}}))},
            {"count", count_schema()}}),
       .only_reads = true,
       .call = list_files});
  tools.push_back(
      {.name = "read_file",
       .title = "Read a session's file",
       .description = "Reads a file of a session: text, an image, or base64 of other bytes.",
       .parameters = {session_parameter(),
                      {.name = "path",
                       .description = "/tmp/a.csv; a relative path is relative to /, where programs start",
                       .is_required = true},
                      {.name = "offset",
                       .type = ParameterType::kInteger,
                       .description = "In bytes; the next_offset of the previous part"},
                      {.name = "max_bytes",
                       .type = ParameterType::kInteger,
                       .description = "The maximum to read; 65536 by default",
                       .least = 1,
                       .most = kMostReadBytes}},
       .output_schema =
           object_schema({{"path", text_schema()},
                          {"size_bytes", count_schema()},
                          {"offset", count_schema()},
                          {"encoding", {{"enum", {"utf-8", "base64"}}}},
                          {"content", text_schema()},
                          {"next_offset", {{"type", "integer"}, {"description", "Where the rest starts"}}}}),
       .only_reads = true,
       .call = read_file});
  tools.push_back(
      {.name = "write_file",
       .title = "Write a session's file",
       .description = "Writes a file in a session, or replaces it. Nothing is written to the host.",
       .parameters = {session_parameter(),
                      {.name = "path",
                       .description = "/tmp/a.csv; a relative path is relative to /, where programs start",
                       .is_required = true},
                      {.name = "content", .description = "Text, or base64", .is_required = true},
                      {.name = "encoding",
                       .description = "Of content; utf-8 by default",
                       .choices = {"utf-8", "base64"}}},
       .output_schema = object_schema({{"path", text_schema()}, {"size_bytes", count_schema()}}),
       .destroys = true,
       .call = write_file});
}

void add_account_tools(std::vector<Tool>& tools, bool with_sessions) {
  std::vector<Parameter> whose;
  if (with_sessions)
    whose.push_back({.name = "session",
                     .description = "The session; by default the policy of run_code and of new sessions"});
  tools.push_back(
      {.name = "explain_policy",
       .title = "Explain the policy",
       .description = "Explains in sentences what programs may and may not do, with every limit; policy is "
                      "the same as canonical JSON.",
       .parameters = std::move(whose),
       .output_schema = object_schema({{"explanation", text_schema()}, {"policy", text_schema()}}),
       .only_reads = true,
       .call = explain_policy});
  tools.push_back({.name = "list_reports",
                   .title = "List reports",
                   .description = "Lists the latest runs, newest first: language, outcome, session.",
                   .output_schema = object_schema(
                       {{"reports", list_schema({{"type", "object"},
                                                 {"properties",
                                                  {{"report", text_schema()},
                                                   {"language", text_schema()},
                                                   {"outcome", text_schema()},
                                                   {"session", text_schema()}}},
                                                 {"required", {"report", "language", "outcome"}}})}}),
                   .only_reads = true,
                   .call = list_reports});
  tools.push_back(
      {.name = "get_report",
       .title = "Read a report",
       .description =
           "Returns what one run did, exactly: all of its output, each call that used the world and "
           "whether it was allowed, fuel, memory, times.",
       .parameters = {{.name = "report",
                       .description = "Its name in the result of run_code or run_in_session",
                       .is_required = true}},
       .output_schema = object_schema({{"report", text_schema()}, {"content", {{"type", "object"}}}}),
       .only_reads = true,
       .call = get_report});
  tools.push_back(
      {.name = "get_receipt",
       .title = "Read a receipt",
       .description =
           "Returns the signed receipt of a run with seal, or in a session with seal: hashes of its inputs, "
           "calls and output, for membrane verify. With private also the hashed content, for membrane "
           "replay.",
       .parameters = {{.name = "report",
                       .description = "Its name in the result of run_code or run_in_session",
                       .is_required = true},
                      {.name = "private",
                       .type = ParameterType::kFlag,
                       .description = "Return the private part, too"}},
       .output_schema = object_schema(
           {{"report", text_schema()},
            {"receipt", text_schema()},
            {"private", {{"type", "string"}, {"description", "The private part, if it was requested"}}}}),
       .only_reads = true,
       .call = get_receipt});
}

}  // namespace

std::vector<Tool> tools_for(const Offer& offer) {
  std::vector<Tool> tools;
  tools.push_back(run_code_tool(offer));
  const bool with_sessions = !names_of(offer, true).empty();
  if (with_sessions) {
    add_session_tools(tools, offer);
    add_file_tools(tools);
  }
  add_account_tools(tools, with_sessions);
  return tools;
}

const Tool* find_tool(const std::vector<Tool>& tools, std::string_view name) {
  const auto found = std::ranges::find(tools, name, &Tool::name);
  return found == tools.end() ? nullptr : &*found;
}

OrderedJson description_of(const Tool& tool, Revision revision) {
  OrderedJson data = {{"name", tool.name}};
  if (revision >= Revision::k2025_06_18) data["title"] = tool.title;
  data["description"] = tool.description;
  data["inputSchema"] = schema_of(tool.parameters);
  if (revision >= Revision::k2025_06_18) data["outputSchema"] = tool.output_schema;
  if (revision >= Revision::k2025_03_26)
    data["annotations"] = {{"title", tool.title},
                           {"readOnlyHint", tool.only_reads},
                           {"destructiveHint", tool.destroys},
                           {"idempotentHint", tool.only_reads},
                           {"openWorldHint", tool.is_open_world}};
  return data;
}

ToolAnswer call_tool(const Tool& tool, Json arguments, Backend& backend, const Caller& caller) {
  auto checked = Arguments::check(std::move(arguments), tool.parameters);
  if (!checked) return failed(checked.error());
  return tool.call({backend, caller, *checked});
}

std::string instructions() {
  return "Programs run in sandboxes that can do only what the policy grants: explain_policy says what. "
         "run_code is for "
         "one program; a session keeps variables and files between programs, and can be forked. A refusal "
         "names "
         "the grant that would allow it: only the person who runs this server can give it.";
}

}  // namespace membrane::mcp
