// Commands for a service: exec.

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "agent/terminal/interrupt.h"
#include "base/json.h"
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/command_remote.h"
#include "cli/duration.h"
#include "cli/exec_view.h"
#include "cli/remote.h"
#include "cli/remote_input.h"
#include "cli/seal.h"
#include "sandbox/receipts/receipt_files.h"

namespace membrane::cli {
namespace {

constexpr uint64_t kMostCodeBytes = 16u << 20;  // as the service's own limit

// -- exec -----------------------------------------------------------------------------------------------------------

struct ExecOptions {
  RemoteOptions remote;
  std::string id, code, input, timeout, context, directory, seal_file;
  std::vector<std::string> environment;
  std::vector<std::string> words;  // a file, unless there is code; then arguments
  bool has_code = false, json = false, background = false, interactive = false, force = false;
};

// Whether a word names a file of this machine that contains code. Directories and programs of this machine's
// own Linux do not: /bin/ls is the sandbox's.
bool is_code_here(const std::string& word) {
  std::error_code error;
  if (!std::filesystem::exists(word, error) || std::filesystem::is_directory(word, error)) return false;
  return !std::filesystem::is_regular_file(word, error) || !is_elf(word);
}

Result<Json> turn_of(const ExecOptions& options) {
  Json turn;
  auto words = options.words;
  if (options.has_code) {
    turn["code"] = options.code;
  } else if (words.empty()) {
    return fail(ErrorCode::kInvalidArgument, "there is nothing to run",
                "Pass -e CODE or a file; - is standard input.");
  } else if (words.front() != "-" && !is_code_here(words.front())) {
    turn["command"] = std::exchange(words, {});
  } else {
    MEMBRANE_ASSIGN(turn["code"], read_input(words.front(), kMostCodeBytes));
    if (words.front() != "-") turn["name"] = words.front();
    words.erase(words.begin());
  }
  if (!words.empty()) turn["arguments"] = words;
  if (!options.context.empty()) turn["context"] = options.context;
  if (!options.directory.empty()) turn["directory"] = options.directory;
  if (!options.environment.empty()) {
    MEMBRANE_ASSIGN(turn["env"], pairs_of("--env", options.environment));
  }
  if (!options.input.empty()) {
    MEMBRANE_ASSIGN(turn["stdin"], read_input(options.input, kMostCodeBytes));
  }
  if (!options.timeout.empty()) {
    MEMBRANE_ASSIGN(turn["timeout_ms"], duration_ms(options.timeout));
  }
  if (!options.seal_file.empty()) turn["seal"] = true;
  if (options.interactive) turn["open_stdin"] = true;
  return turn;
}

// A word that was taken for a command, since it names no file here, in a sandbox that runs none.
Error named_as_file(Error error, const ExecOptions& options, const Json& turn) {
  if (!turn.contains("command") || !error.message.contains("runs no commands")) return error;
  error.message =
      "there is no file with code called " + options.words.front() + " here, and " + error.message;
  error.hint =
      "Check the path, or pass -e CODE. A sandbox of membrane create --template linux runs commands.";
  return error;
}

Result<int> exec_in_background(Remote& remote, const ExecOptions& options, Json turn) {
  turn["background"] = true;
  MEMBRANE_ASSIGN(const Json exec,
                  remote.send_json(json_request("POST", of_sandbox(options.id, {"exec"}), turn)));
  if (options.json) print_json(exec);
  else print(text_at(exec, "exec_id") + "\n");
  return kExitOk;
}

Result<sandbox::SealedReceipt> fetch_receipt(Remote& remote, const std::string& sandbox,
                                             const std::string& exec) {
  sandbox::SealedReceipt sealed;
  MEMBRANE_ASSIGN(sealed.text, remote.send({.path = of_sandbox(sandbox, {"execs", exec, "receipt"})}));
  MEMBRANE_ASSIGN(sealed.private_text,
                  remote.send({.path = of_sandbox(sandbox, {"execs", exec, "receipt", "private"})}));
  return sealed;
}

// Fetches the missing receipts of the earlier turns, which a replay needs next to this one, under the names
// that `membrane repl --seal` uses.
Status save_turns_before(Remote& remote, const std::string& sandbox, const std::string& exec,
                         const std::string& folder) {
  std::set<std::string> there;
  MEMBRANE_ASSIGN(const std::vector<std::string> files, sandbox::receipts_in(folder));
  for (const std::string& file : files)
    if (const auto receipt = sandbox::read_receipt(file)) there.insert(receipt->digest);
  MEMBRANE_ASSIGN(const Json answer, remote.send_json({.path = of_sandbox(sandbox, {"receipts"})}));
  const Json all = list_at(answer, "receipts");
  const auto own =
      std::ranges::find_if(all, [&](const Json& each) { return text_at(each, "exec_id") == exec; });
  if (own == all.end()) return {};
  for (const Json& each : all) {
    if (text_at(each, "context") != text_at(*own, "context") ||
        number_at(each, "turn") >= number_at(*own, "turn") || there.contains(text_at(each, "digest")))
      continue;
    MEMBRANE_ASSIGN(const sandbox::SealedReceipt sealed,
                    fetch_receipt(remote, sandbox, text_at(each, "exec_id")));
    MEMBRANE_ASSIGN(const sandbox::Receipt receipt, sandbox::Receipt::parse(sealed.text));
    MEMBRANE_TRY(sandbox::write_receipt(folder + "/" + sandbox::name_of_turn(receipt.head), sealed));
  }
  return {};
}

// Writes FILE and FILE.private, when the exec is over.
Status save_receipt(Remote& remote, const ExecOptions& options, const std::string& exec) {
  MEMBRANE_ASSIGN(const sandbox::SealedReceipt sealed, fetch_receipt(remote, options.id, exec));
  MEMBRANE_TRY(sandbox::write_receipt(options.seal_file, sealed));
  const std::string folder = std::filesystem::path(options.seal_file).parent_path().string();
  return save_turns_before(remote, options.id, exec, folder.empty() ? "." : folder);
}

Result<int> exec_turn(const ExecOptions& options, Json turn) {
  MEMBRANE_ASSIGN(Remote remote, Remote::open(options.remote));
  if (options.background) return exec_in_background(remote, options, std::move(turn));
  agent::Interrupt interrupt;
  remote.set_cancel(&interrupt.flag());
  ExecView view(options.id, options.json);
  std::optional<RemoteInput> pump;
  std::string id;
  RemoteRequest request;
  if (options.interactive) {
    turn["background"] = true;  // so that its id is known before any output
    MEMBRANE_ASSIGN(const Json begun,
                    remote.send_json(json_request("POST", of_sandbox(options.id, {"exec"}), turn)));
    id = text_at(begun, "exec_id");
    MEMBRANE_ASSIGN(Remote for_input, Remote::open(options.remote));
    pump.emplace(std::move(for_input), options.id, id);
    request = events_of(options.id, id, "");
  } else {
    turn["stream"] = true;
    turn["output"] = kOutputForm;
    request = json_request("POST", of_sandbox(options.id, {"exec"}), turn);
  }
  const Status read = follow(remote, options.id, std::move(request), id, view);
  pump.reset();
  if (!read && read.error().code == ErrorCode::kCancelled) {
    remote.set_cancel(nullptr);
    const std::string exec = id.empty() ? remote.exec_id() : id;
    if (!exec.empty())
      MEMBRANE_TRY(remote.send({.method = "DELETE", .path = of_sandbox(options.id, {"execs", exec})}));
    return kEndBySignal;
  }
  MEMBRANE_TRY(read);
  if (options.json) print_json(view.whole_report());
  else view.show_end();
  if (options.seal_file.empty()) return view.exit_code();
  const Status saved = save_receipt(remote, options, text_at(view.report, "exec_id"));
  return saved ? view.exit_code() : complain_unsealed(saved.error());
}

Result<int> exec(const ExecOptions& options) {
  if (!options.seal_file.empty()) MEMBRANE_TRY(check_receipt_path(options.seal_file, options.force));
  MEMBRANE_ASSIGN(const Json turn, turn_of(options));
  auto code = exec_turn(options, turn);
  return code ? code : std::unexpected(named_as_file(std::move(code.error()), options, turn));
}

}  // namespace

void add_remote_exec(CLI::App& app, int& exit_code) {
  CLI::App* const command = app.add_subcommand("exec", "Run code in a sandbox of a service");
  const auto options = std::make_shared<ExecOptions>();
  add_id(*command, options->id);
  CLI::Option* const code =
      command->add_option("-e,--evaluate", options->code, "The code")->type_name("CODE");
  command
      ->add_option("words", options->words,
                   "Without -e a file with the code; then arguments of the code. What is no file here is a "
                   "command of a "
                   "Linux sandbox and its arguments. Options that are not "
                   "Membrane's, too; "
                   "write -- before those that are")
      ->type_name("[FILE] [ARGUMENT]");
  CLI::Option* const input =
      command->add_option("--input", options->input, "Its standard input; - is this command's");
  input->type_name("FILE");
  command
      ->add_option(
          "--timeout", options->timeout,
          "How long it may run, as 10s, from when it begins: the sandbox runs one after the other, and "
          "execs shows one that waits as queued")
      ->type_name("TIME");
  command->add_option("--context", options->context, "The context to run it in, from membrane context")
      ->type_name("ID");
  command
      ->add_option("-w,--workdir", options->directory,
                   "Its working directory, in a Linux sandbox (default: as the image says, or /root)")
      ->type_name("DIR");
  add_repeatable(*command, "--env", options->environment,
                 "A variable of the environment, for this code alone; may be repeated")
      ->type_name("NAME=VALUE");
  CLI::Option* const background =
      command->add_flag("-d,--detach,--background", options->background,
                        "Print the exec's id, and do not wait for it (see logs, wait and cancel)");
  command
      ->add_option("--seal", options->seal_file,
                   "Write the receipt of it, FILE and FILE.private, and beside it those of the turns before")
      ->type_name("FILE")
      ->excludes(background);
  add_force(*command, options->force);
  command
      ->add_flag("-i,--interactive", options->interactive,
                 "Give it this command's standard input as it comes, while it runs")
      ->excludes(background)
      ->excludes(input);
  command->add_flag("--json", options->json, "Print the report at the end");
  options->remote.add_to(*command);
  command->footer(
      "Prints what the code prints, as it comes, and the value of its last expression. The exit code is that "
      "of "
      "membrane run. Ctrl-C stops the code.\n\n"
      "Examples:\n  membrane exec $ID -e 'print(2 + 2)'\n  EXEC=$(membrane exec -d $ID train.py)");
  command->callback([options, code, &exit_code] {
    options->has_code = code->count() > 0;
    Result<int> done = exec(*options);
    if (!done)  // the option may have been meant for the program
      done.error() = with_advice_to_pass_on(
          std::move(done.error()),
          "membrane exec " + options->id +
              (options->words.empty() || options->has_code ? " -e …" : " " + options->words.front()),
          options->input);
    exit_code = finish(done, options->json);
  });
}

}  // namespace membrane::cli
