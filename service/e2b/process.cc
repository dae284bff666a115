// process.Process of E2B's sandboxes: commands. A Linux sandbox has programs (linux_commands.h); one in
// WebAssembly has only its interpreter and a few small ones, and a line that needs more is refused by name.

#include <algorithm>
#include <charconv>
#include <csignal>

#include "base/base64.h"
#include "base/json.h"
#include "service/e2b/command_stream.h"
#include "service/e2b/handlers.h"
#include "service/e2b/languages.h"
#include "service/e2b/linux_commands.h"
#include "service/e2b/rpc.h"
#include "service/e2b/shell_words.h"
#include "service/environments.h"
#include "service/times.h"

namespace membrane::service::e2b {
namespace {

// -- programs -------------------------------------------------------------------------------------------------------

constexpr size_t kMostLineBytes = 64u << 10, kMostTagBytes = 1u << 10;
constexpr size_t kMostPrintedBytes = 8u << 20;  // for a command that is not run by the interpreter

// A parsed command on its way to an exec.
struct Start {
  Service service;
  SharedCall call;
  std::vector<std::string> words;
  std::string template_name;
  Command command;
  std::optional<uint64_t> timeout_ms;
  bool takes_input = false;  // while it runs, if the interpreter runs it

  // Relative paths start at the command's directory.
  [[nodiscard]] std::string path(const std::string& given) const {
    if (given.starts_with('/') || !command.directory) return absolute_path(given);
    return absolute_path(absolute_path(*command.directory) + "/" + given);
  }
  void begin(const std::shared_ptr<Exec>& exec) {
    command.exec = exec;
    command.pid = call->known->add_command(command);
    stream_command(call, command, exec);
  }
  // Runs it as the interpreter runs a program.
  void run(ExecSpec spec) {
    spec.is_script = true;
    spec.timeout_ms = timeout_ms;
    spec.open_stdin = takes_input;
    spec.environment = command.environment;
    spec.other_bytes = bytes_of(command);
    const auto exec_of = [&](ExecSpec each) {
      return service.sandboxes.exec(call->actor(), call->known->id, std::move(each));
    };
    if (command.directory)
      (void)exec_of({.code = code_to_enter(template_name, absolute_path(*command.directory))});
    const auto exec = exec_of(std::move(spec));
    if (command.directory) (void)exec_of({.code = code_to_leave(template_name)});
    if (!exec) return refuse_stream(call, rpc_error(exec.error()));
    begin(*exec);
  }
  // A command that is already over.
  void finish(std::string_view output, std::string_view problems, int code) {
    auto held =
        service.sandboxes.hold(call->known->tenant, output.size() + problems.size() + bytes_of(command));
    if (!held) return refuse_stream(call, rpc_error(held.error()));
    const auto exec =
        std::make_shared<Exec>(new_id("exe"), call->known->id, system_now_ms(), *std::move(held));
    exec->begin();
    if (!output.empty()) exec->add_output(false, output);
    if (!problems.empty()) exec->add_output(true, problems);
    sandbox::Report report;
    if (code != 0) report.exit_code = code;
    exec->finish(report);
    begin(exec);
  }
};
using SharedStart = std::shared_ptr<Start>;

std::vector<std::string> after(const std::vector<std::string>& words, size_t count) {
  return {words.begin() + static_cast<ptrdiff_t>(std::min(count, words.size())), words.end()};
}

// `python -c CODE …`, `python FILE …`; `flag` is that of code in the line.
void run_interpreter(const SharedStart& start, std::string_view flag) {
  const std::vector<std::string>& words = start->words;
  size_t at = 1;
  while (at < words.size() && (words[at] == "-u" || words[at] == "-B" || words[at] == "-I"))
    ++at;  // mean nothing here
  if (at + 1 < words.size() && words[at] == flag)
    return start->run({.code = words[at + 1], .arguments = after(words, at + 2), .name = "<string>"});
  if (at + 1 == words.size() && words[at] == "--version" && start->template_name == "python")
    return start->run({.code = "import sys; print('Python', sys.version.split()[0])"});
  if (at == words.size() || words[at].starts_with('-'))
    return refuse_stream(start->call, rpc_error(needs_linux(words[0] + " with these words (it takes " +
                                                            std::string(flag) + " CODE, or FILE)")));
  const std::string path = start->path(words[at]);
  start->service.sandboxes.read_file(
      start->call->actor(), start->call->known->id, "", path,
      [start, path, arguments = after(words, at + 1)](const Answer<std::string>& code) {
        constexpr int kNoFile = 2;
        if (code) return start->run({.code = *code, .arguments = arguments, .name = path});
        if (code.error().code != ApiCode::kNotFound)
          return refuse_stream(start->call, rpc_error(code.error()));
        start->finish("", start->words[0] + ": can't open file '" + path + "': No such file or directory\n",
                      kNoFile);
      });
}

void run_python(const SharedStart& start) { run_interpreter(start, "-c"); }
void run_node(const SharedStart& start) { run_interpreter(start, "-e"); }

void run_ls(const SharedStart& start) {
  const auto names = after(start->words, 1);
  if (names.size() > 1 || (names.size() == 1 && names[0].starts_with('-')))
    return refuse_stream(start->call, rpc_error(needs_linux("ls with these words (it takes one directory)")));
  start->service.sandboxes.act_on_files(
      start->call->actor(), start->call->known->id, "",
      {.act = wasi::FileAct::kList, .path = start->path(names.empty() ? "" : names[0])},
      [start](const Answer<std::vector<wasi::FileFact>>& facts) {
        constexpr int kNoDirectory = 2;
        if (!facts) return start->finish("", "ls: " + facts.error().message + "\n", kNoDirectory);
        std::string lines;
        for (const wasi::FileFact& fact : *facts) lines += fact.path.substr(fact.path.rfind('/') + 1) + "\n";
        start->finish(lines, "", 0);
      });
}

void run_echo(const SharedStart& start) {
  const bool has_break = start->words.size() < 2 || start->words[1] != "-n";
  std::string line;
  for (const std::string& word : after(start->words, has_break ? 1 : 2))
    line += (line.empty() ? "" : " ") + word;
  start->finish(line + (has_break ? "\n" : ""), "", 0);
}

void run_true(const SharedStart& start) { start->finish("", "", 0); }
void run_false(const SharedStart& start) { start->finish("", "", 1); }
void run_pwd(const SharedStart& start) { start->finish(start->path("") + "\n", "", 0); }

void run_env(const SharedStart& start) {
  if (start->words.size() > 1)
    return refuse_stream(start->call, rpc_error(needs_linux("env with a command")));
  start->run({.code = start->template_name == "python"
                          ? "import os\nfor pair in os.environ.items(): print('='.join(pair))"
                          : "for (const pair of Object.entries(process.env)) console.log(pair.join('='))"});
}

// File after file: each is read after the previous one.
void cat_from(const SharedStart& start, size_t at, const std::string& so_far) {
  if (at == start->words.size()) return start->finish(so_far, "", 0);
  start->service.sandboxes.read_file(
      start->call->actor(), start->call->known->id, "", start->path(start->words[at]),
      [start, at, so_far](const Answer<std::string>& bytes) {
        if (bytes && bytes->size() > kMostPrintedBytes - so_far.size())
          return start->finish(
              so_far,
              "cat: " + start->words[at] + ": there is more than cat prints here; read it as a file\n", 1);
        if (bytes) return cat_from(start, at + 1, so_far + *bytes);
        start->finish(so_far, "cat: " + start->words[at] + ": " + bytes.error().message + "\n", 1);
      });
}

void run_cat(const SharedStart& start) {
  constexpr size_t kMostFiles = 64;
  const auto is_flag = [](const std::string& word) { return word.starts_with('-'); };
  const auto files = after(start->words, 1);
  if (files.empty() && start->takes_input && start->template_name == "python")
    return start->run({.code = "import sys\nfor line in sys.stdin: print(line, end='', flush=True)"});
  if (files.empty() || files.size() > kMostFiles || std::ranges::any_of(files, is_flag))
    return refuse_stream(start->call, rpc_error(needs_linux("cat with these words (it takes files)")));
  cat_from(start, 1, "");
}

struct Program {
  std::string_view name;
  std::string_view only_in;  // "": all templates
  void (*run)(const SharedStart&);
};
constexpr Program kPrograms[] = {
    {"python", "python", run_python},
    {"python3", "python", run_python},
    {"node", "javascript", run_node},
    {"echo", "", run_echo},
    {"cat", "", run_cat},
    {"env", "", run_env},
    {"ls", "", run_ls},
    {"pwd", "", run_pwd},
    {"true", "", run_true},
    {"false", "", run_false},
};

std::string names_in(std::string_view template_name) {
  std::string names;
  for (const Program& each : kPrograms)
    if (each.only_in.empty() || each.only_in == template_name)
      names += (names.empty() ? "" : ", ") + std::string(each.name);
  return names;
}

// -- calls ----------------------------------------------------------------------------------------------------------

// The line of `bash -l -c LINE`. Errors: for anything else that a client starts.
std::expected<std::string, RpcError> line_of(const Command& command) {
  const std::vector<std::string>& arguments = command.arguments;
  if (!command.program.ends_with("bash") || arguments.size() < 2 || arguments[arguments.size() - 2] != "-c")
    return std::unexpected(rpc_error(needs_linux("A program other than those of commands.run()")));
  return arguments.back();
}

std::optional<uint64_t> timeout_of(const RequestHead& head) {
  const auto text = head.headers.find("Connect-Timeout-Ms").value_or("");
  uint64_t ms = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ms);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return ms;
}

// {"size": {"rows": 24, "cols": 80}}
Answer<linux::TerminalSize> size_in(const Json& terminal) {
  Fields fields(terminal);
  const Json size = fields.object("size");
  Fields of_size(size);
  constexpr uint64_t kUsualRows = 24, kUsualColumns = 80;
  const uint64_t rows = of_size.number("rows", UINT16_MAX).value_or(kUsualRows);
  const uint64_t columns = of_size.number("cols", UINT16_MAX).value_or(kUsualColumns);
  for (const Fields* const each : {&fields, &of_size})
    if (const auto checked = each->checked(); !checked) return std::unexpected(checked.error());
  return linux::TerminalSize{.columns = static_cast<uint16_t>(columns), .rows = static_cast<uint16_t>(rows)};
}

// Errors: for a message that is invalid or too long.
Answer<CommandStart> read_start(const RequestHead& head, const Json& message) {
  Fields fields(message);
  const Json process = fields.object("process"), terminal = fields.object("pty");
  Fields of_process(process);
  CommandStart start;
  start.timeout_ms = timeout_of(head);
  start.takes_input = fields.flag("stdin");
  Command& command = start.command;
  command.program = of_process.text("cmd");
  command.arguments = of_process.list("args");
  command.environment = of_process.texts("envs");
  command.directory = of_process.optional_text("cwd");
  command.tag = fields.optional_text("tag");
  for (const Fields* const each : {&fields, &of_process})
    if (const auto checked = each->checked(); !checked) return std::unexpected(checked.error());
  if (const auto pty = message.find("pty"); pty != message.end() && !pty->is_null()) {
    const auto size = size_in(terminal);
    if (!size) return std::unexpected(size.error());
    start.terminal = *size;
    command.has_terminal = true;
  }
  size_t line_bytes = command.program.size();
  for (const std::string& each : command.arguments) line_bytes += each.size();
  if (line_bytes > kMostLineBytes || command.directory.value_or("").size() > kMostLineBytes ||
      command.tag.value_or("").size() > kMostTagBytes)
    return refuse(
        ApiCode::kInvalidValue,
        "the command's line, its directory or its tag is too long: they have 64 KiB, 64 KiB and 1 KiB",
        "Write what is longer into a file.");
  if (const auto checked = check_environment(command.environment); !checked)
    return std::unexpected(checked.error());
  return start;
}

// One of the programs that an interpreter in WebAssembly has.
void start_program(const Service& service, const SharedCall& call, const std::string& template_name,
                   CommandStart asked) {
  const auto refuse = [&](const RpcError& error) { refuse_stream(call, error); };
  if (asked.terminal) return refuse(rpc_error(needs_linux("A PTY")));
  const auto line = line_of(asked.command);
  if (!line) return refuse(line.error());
  auto words = shell_words(*line);
  if (!words) return refuse(rpc_error(needs_linux("A command with " + words.error())));
  if (words->empty()) words->emplace_back("true");
  const auto* const program = std::ranges::find_if(kPrograms, [&](const Program& each) {
    return each.name == words->front() && (each.only_in.empty() || each.only_in == template_name);
  });
  if (program == std::end(kPrograms)) {
    ApiError error = needs_linux("The program '" + words->front() + "'");
    error.hint = "It has " + names_in(template_name) + ". " + error.hint;
    return refuse(rpc_error(error));
  }
  const auto start =
      std::make_shared<Start>(Start{service, call, *std::move(words), template_name, std::move(asked.command),
                                    asked.timeout_ms, asked.takes_input});
  if (!start->command.directory) return program->run(start);
  service.sandboxes.act_on_files(
      call->actor(), call->known->id, "",
      {.act = wasi::FileAct::kStat, .path = absolute_path(*start->command.directory)},
      [start, program](const Answer<std::vector<wasi::FileFact>>& facts) {
        const bool is_there = facts && !facts->empty() && facts->front().type == wasi::FileType::kDirectory;
        if (is_there) return program->run(start);
        refuse_stream(start->call,
                      {RpcCode::kInvalidArgument, "cwd '" + *start->command.directory + "' does not exist"});
      });
}

void start_command(const Service& service, const SharedCall& call, const Json& message) {
  auto start = read_start(call->request, message);
  if (!start) return refuse_stream(call, rpc_error(start.error()));
  const auto info = service.sandboxes.get(call->known->tenant, call->known->id);
  if (!info) return refuse_stream(call, {RpcCode::kUnavailable, "The sandbox was not found"});
  start->command.is_linux = info->kind == Kind::kLinux;
  if (start->command.is_linux) return start_linux_command(service, call, *std::move(start));
  start_program(service, call, info->template_name, *std::move(start));
}

// The command that a message selects by {"process": {"pid": 1}} or {"tag": "…"}.
std::expected<Command, RpcError> selected(const SharedCall& call, const Json& message) {
  Fields fields(message);
  const Json selector = fields.object("process");
  Fields of_selector(selector);
  const auto pid = of_selector.number("pid");
  const auto tag = of_selector.optional_text("tag");
  if (const auto checked = fields.checked(); !checked) return std::unexpected(rpc_error(checked.error()));
  if (const auto checked = of_selector.checked(); !checked)
    return std::unexpected(rpc_error(checked.error()));
  auto found = pid   ? call->known->find_command(static_cast<uint32_t>(*pid))
               : tag ? call->known->find_command(*tag)
                     : std::nullopt;
  if (!found) return std::unexpected(RpcError{RpcCode::kNotFound, "there is no such command"});
  return *std::move(found);
}

void connect(const Service&, const SharedCall& call, const Json& message) {
  const auto command = selected(call, message);
  if (!command) return refuse_stream(call, command.error());
  if (const auto exec = command->find_exec()) return stream_command(call, *command, exec);
  refuse_stream(call, {RpcCode::kNotFound, "the command is over, and its output is no longer kept"});
}

void list(const Service&, const SharedCall& call, const Json&) {
  OrderedJson processes = OrderedJson::array();
  for (const Command& each : call->known->running_commands()) {
    OrderedJson config = {{"cmd", each.program}, {"args", each.arguments}, {"envs", each.environment}};
    if (each.directory) config["cwd"] = *each.directory;
    OrderedJson process = {{"config", config}, {"pid", each.pid}};
    if (each.tag) process["tag"] = *each.tag;
    processes.push_back(process);
  }
  call->reply(rpc_response(json_text(OrderedJson{{"processes", processes}})));
}

void send_signal(const Service& service, const SharedCall& call, const Json& message) {
  const auto command = selected(call, message);
  if (!command) return call->reply(rpc_response(command.error()));
  const auto exec = command->find_exec();
  if (exec == nullptr || exec->state() == ExecState::kDone)
    return call->reply(rpc_response(RpcError{RpcCode::kNotFound, "the command is over"}));
  const Json signal = message.value("signal", Json());
  const bool is_asked_to_end = signal == "SIGNAL_SIGTERM" || signal == SIGTERM;
  const auto sent =
      command->is_linux && is_asked_to_end
          ? service.sandboxes.signal_exec(call->known->tenant, call->known->id, exec->id, SIGTERM)
          : service.sandboxes.cancel_exec(call->actor(), call->known->id, exec->id);
  if (sent) call->reply(rpc_response("{}"));
  else call->reply(rpc_response(rpc_error(sent.error())));
}

Answer<void> write_input(const Service& service, const SharedCall& call, const Command& command,
                         std::string_view bytes, bool is_end) {
  const auto exec = command.find_exec();
  if (exec == nullptr) return refuse(ApiCode::kConflict, "the command is over, and takes no input");
  return service.sandboxes.write_input(call->known->tenant, call->known->id, exec->id, bytes, is_end);
}

RpcError no_terminal(const Command& command) {
  if (!command.is_linux) return rpc_error(needs_linux("A PTY"));
  return {RpcCode::kFailedPrecondition, "the command has no terminal; pty.create() creates one"};
}

// {"process": …, "input": {"stdin": base64}}, or "pty"
void send_input(const Service& service, const SharedCall& call, const Json& message) {
  const auto command = selected(call, message);
  if (!command) return call->reply(rpc_response(command.error()));
  Fields fields(message);
  const Json input = fields.object("input");
  const bool is_typed = input.contains("pty");
  if (is_typed && !command->has_terminal) return call->reply(rpc_response(no_terminal(*command)));
  Fields of_input(input);
  const auto text = of_input.optional_text(is_typed ? "pty" : "stdin");
  for (Fields* const each : {&fields, &of_input})
    if (const auto checked = each->checked(); !checked)
      return call->reply(rpc_response(rpc_error(checked.error())));
  const auto bytes = base64_decode(text.value_or(""));
  if (!bytes)
    return call->reply(rpc_response(RpcError{RpcCode::kInvalidArgument, "the input is not base64"}));
  const auto written = write_input(service, call, *command, *bytes, false);
  call->reply(written ? rpc_response("{}") : rpc_response(rpc_error(written.error())));
}

void close_input(const Service& service, const SharedCall& call, const Json& message) {
  const auto command = selected(call, message);
  if (!command) return call->reply(rpc_response(command.error()));
  const auto closed = write_input(service, call, *command, "", true);
  call->reply(closed ? rpc_response("{}") : rpc_response(rpc_error(closed.error())));
}

// {"process": …, "pty": {"size": …}}
void resize(const Service& service, const SharedCall& call, const Json& message) {
  const auto command = selected(call, message);
  if (!command) return call->reply(rpc_response(command.error()));
  if (!command->has_terminal) return call->reply(rpc_response(no_terminal(*command)));
  Fields fields(message);
  const Json terminal = fields.object("pty");
  const auto size = size_in(terminal);
  if (const auto checked = fields.checked(); !checked)
    return call->reply(rpc_response(rpc_error(checked.error())));
  if (!size) return call->reply(rpc_response(rpc_error(size.error())));
  const auto exec = command->find_exec();
  if (exec == nullptr) return call->reply(rpc_response(RpcError{RpcCode::kNotFound, "the command is over"}));
  const auto done = service.sandboxes.resize_exec(call->known->tenant, call->known->id, exec->id, *size);
  call->reply(done ? rpc_response("{}") : rpc_response(rpc_error(done.error())));
}

constexpr RpcMethod kMethods[] = {
    {"Start", "exec", true, start_command},
    {"Connect", "exec", true, connect},
    {"List", "exec", false, list},
    {"SendSignal", "exec", false, send_signal},
    {"SendInput", "exec", false, send_input},
    {"CloseStdin", "exec", false, close_input},
    {"Update", "exec", false, resize},
};

}  // namespace

void handle_process(const Service& service, const SharedCall& call) { handle_rpc(service, call, kMethods); }

}  // namespace membrane::service::e2b
