// Commands for a service: execs, logs, wait, cancel.

#include <set>

#include "agent/model/retry.h"
#include "agent/terminal/interrupt.h"
#include "cli/cli.h"
#include "cli/command_remote.h"
#include "cli/exec_view.h"
#include "cli/remote.h"

namespace membrane::cli {
namespace {

constexpr uint64_t kLookAgainMs = 500;

// -- execs, wait, cancel --------------------------------------------------------------------------------------------

struct ExecsOptions {
  RemoteOptions remote;
  std::string id, exec;
  bool json = false;
};

Result<int> list(const ExecsOptions& options) {
  MEMBRANE_ASSIGN(Remote remote, Remote::open(options.remote));
  MEMBRANE_ASSIGN(const Json answer, remote.send_json({.path = of_sandbox(options.id, {"execs"})}));
  if (options.json) {
    print_json(answer);
    return kExitOk;
  }
  std::vector<std::vector<std::string>> rows = {{"EXEC", "STATE", "OUTCOME", "CREATED"}};
  for (const Json& each : list_at(answer, "execs"))
    rows.push_back({text_at(each, "exec_id"), text_at(each, "state"), text_at(each, "outcome"),
                    text_at(each, "created_at")});
  print(table_text(rows));
  return kExitOk;
}

// Ctrl-C ends the wait, not the exec.
Result<int> wait(const ExecsOptions& options) {
  MEMBRANE_ASSIGN(Remote remote, Remote::open(options.remote));
  agent::Interrupt interrupt;
  remote.set_cancel(&interrupt.flag());
  ExecView view(options.id, true);
  const Status read = follow(remote, options.id, events_of(options.id, options.exec, ""), options.exec, view);
  if (!read && read.error().code == ErrorCode::kCancelled) return kEndBySignal;
  MEMBRANE_TRY(read);
  if (options.json) print_json(view.whole_report());
  else print(text_at(view.report, "outcome") + "\n");
  return view.exit_code();
}

// As the list of execs shows it, without its report, which may be long.
Result<Json> find_exec(Remote& remote, const std::string& sandbox, const std::string& exec) {
  MEMBRANE_ASSIGN(const Json answer, remote.send_json({.path = of_sandbox(sandbox, {"execs"})}));
  for (const Json& each : list_at(answer, "execs"))
    if (text_at(each, "exec_id") == exec) return each;
  return remote.send_json({.path = of_sandbox(sandbox, {"execs", exec})});  // the service reports why not
}

Result<int> cancel(const ExecsOptions& options) {
  MEMBRANE_ASSIGN(Remote remote, Remote::open(options.remote));
  const auto path = of_sandbox(options.id, {"execs", options.exec});
  MEMBRANE_ASSIGN(const Json exec, find_exec(remote, options.id, options.exec));
  if (text_at(exec, "state") == "done")
    return fail(ErrorCode::kInvalidArgument,
                "the exec " + options.exec + " is over: " + text_at(exec, "outcome"),
                "membrane logs " + options.id + " --exec " + options.exec + " shows what it printed.");
  MEMBRANE_TRY(remote.send({.method = "DELETE", .path = path}));
  print(options.exec + "\n");
  return kExitOk;
}

// -- logs -----------------------------------------------------------------------------------------------------------

struct LogOptions {
  RemoteOptions remote;
  std::string id, exec;
  bool is_followed = false;
};

// Shows the new output of the sandbox's execs. False: one of them still runs, and is not followed.
Result<bool> show_execs(Remote& remote, const LogOptions& options, std::set<std::string>& shown) {
  MEMBRANE_ASSIGN(const Json answer, remote.send_json({.path = of_sandbox(options.id, {"execs"})}));
  bool all = true;
  for (const Json& each : list_at(answer, "execs")) {
    const std::string exec = text_at(each, "exec_id");
    if (shown.contains(exec)) continue;
    if (text_at(each, "state") != "done" && !options.is_followed) {
      all = false;
      continue;
    }
    ExecView view(options.id, false);
    MEMBRANE_TRY(follow(remote, options.id, events_of(options.id, exec, ""), exec, view));
    view.show_end();
    shown.insert(exec);
  }
  return all;
}

// The output of one exec. Ctrl-C leaves it running.
Result<int> show_exec(Remote& remote, const LogOptions& options) {
  MEMBRANE_ASSIGN(const Json exec, find_exec(remote, options.id, options.exec));
  if (text_at(exec, "state") != "done" && !options.is_followed) {
    print(stderr, "the exec still runs: -f follows it\n");
    return kExitOk;
  }
  ExecView view(options.id, false);
  const Status read = follow(remote, options.id, events_of(options.id, options.exec, ""), options.exec, view);
  if (!read && read.error().code == ErrorCode::kCancelled) return kExitOk;
  MEMBRANE_TRY(read);
  view.show_end();
  return kExitOk;
}

Result<int> show_logs(const LogOptions& options) {
  MEMBRANE_ASSIGN(Remote remote, Remote::open(options.remote));
  agent::Interrupt interrupt;
  remote.set_cancel(&interrupt.flag());
  if (!options.exec.empty()) return show_exec(remote, options);
  std::set<std::string> shown;
  do {
    const auto all = show_execs(remote, options, shown);
    if (!all && all.error().code == ErrorCode::kCancelled) return kExitOk;
    // A sandbox that is over has nothing more.
    if (!all && all.error().code == ErrorCode::kNotFound && !shown.empty()) return kExitOk;
    if (!all) return std::unexpected(all.error());
    if (!*all) print(stderr, "an exec still runs: -f follows it\n");
  } while (options.is_followed && agent::RetryClock::real().wait_ms(kLookAgainMs, &interrupt.flag()));
  return kExitOk;
}

using Act = Result<int> (*)(const ExecsOptions&);
CLI::App* add_act(CLI::App& app, int& exit_code, const char* name, const char* help, Act act,
                  bool is_of_one) {
  CLI::App* const command = app.add_subcommand(name, help);
  const auto options = std::make_shared<ExecsOptions>();
  add_id(*command, options->id);
  if (is_of_one)
    command->add_option("exec", options->exec, "The exec, as exec -d and execs print its id")
        ->required()
        ->type_name("EXEC");
  if (act != cancel)
    command->add_flag("--json", options->json, is_of_one ? "Print the report" : "Print them as JSON");
  options->remote.add_to(*command);
  command->callback([options, act, &exit_code] { exit_code = finish(act(*options), options->json); });
  return command;
}

}  // namespace

void add_remote_execs(CLI::App& app, int& exit_code) {
  add_act(app, exit_code, "execs", "List the execs of a sandbox of a service", list, false)
      ->footer("Those that run or wait, and the last that are over.\n\nExample:\n  membrane execs $ID");
  add_act(app, exit_code, "wait", "Wait until an exec of a sandbox of a service is over", wait, true)
      ->footer(
          "Prints its outcome. The exit code is that of exec; logs shows what it printed.\n\n"
          "Example:\n  membrane wait $ID $EXEC");
  add_act(app, exit_code, "cancel", "Stop an exec of a sandbox of a service", cancel, true)
      ->footer(
          "The sandbox stays, as it was before the exec. One that is over is an error.\n\nExample:\n  "
          "membrane cancel $ID $EXEC");
}

void add_remote_logs(CLI::App& app, int& exit_code) {
  CLI::App* const command =
      app.add_subcommand("logs", "Show what the execs of a sandbox of a service printed");
  const auto options = std::make_shared<LogOptions>();
  add_id(*command, options->id);
  command->add_option("exec,--exec", options->exec, "Only this exec, by its id")->type_name("EXEC");
  command->add_flag("-f,--follow", options->is_followed,
                    "Follow further output, until Ctrl-C or the end of the exec or the sandbox");
  options->remote.add_to(*command);
  command->footer("Examples:\n  membrane logs $ID\n  membrane logs -f $ID $EXEC");
  command->callback([options, &exit_code] { exit_code = finish(show_logs(*options)); });
}

}  // namespace membrane::cli
