#include "cli/remote_shell.h"

#include <cstdlib>
#include <mutex>
#include <optional>
#include <utility>

#include "base/json.h"
#include "cli/cli.h"
#include "cli/command_remote.h"
#include "cli/exec_view.h"
#include "cli/outer_terminal.h"
#include "cli/remote_hints.h"
#include "cli/remote_input.h"

namespace membrane::cli {

namespace {

constexpr int kExitAsked = 143;  // as after SIGTERM
// The report's event contains all output.
constexpr JsonLimits kEventLimits{.bytes = 512u << 20, .memory_bytes = 2ull << 30};

// The remote command, for messages of this terminal. Only resizing goes this way.
class RemoteCommand final : public linux::Command {
 public:
  RemoteCommand(Remote remote, std::vector<std::string> path)
      : remote_(std::move(remote)), path_(std::move(path)) {}
  [[nodiscard]] int process_id() const override { return 0; }
  Status write_input(std::string_view) override { return {}; }
  void end_input() override {}
  void resize(linux::TerminalSize size) override {
    const std::lock_guard lock(mutex_);
    // A finished command has no terminal; its end is reported elsewhere.
    static_cast<void>(
        remote_.send(json_request("POST", path_, {{"columns", size.columns}, {"rows", size.rows}})));
  }
  void signal(int) override {}
  std::optional<linux::CommandEnd> wait(std::optional<std::chrono::steady_clock::time_point>) override {
    return std::nullopt;
  }

 private:
  std::mutex mutex_;
  Remote remote_;
  const std::vector<std::string> path_;
};

Json turn_of(const RemoteShell& shell) {
  const char* const term = std::getenv("TERM");
  const linux::TerminalSize size = OuterTerminal::size();
  Json environment = {{"TERM", term == nullptr || *term == '\0' ? "xterm" : term}};
  for (const std::string& each : shell.environment)
    environment[each.substr(0, each.find('='))] = each.substr(each.find('=') + 1);
  Json turn = {{"command", shell.command},
               {"env", environment},
               {"terminal", {{"columns", size.columns}, {"rows", size.rows}}},
               {"open_stdin", true},
               {"background", true}};  // so that its id is known before any output
  if (!shell.directory.empty()) turn["directory"] = shell.directory;
  return turn;
}

// Its exit code; 128 and the signal's number if one ended it, as shells do.
int exit_code_in(const Json& report, const std::string& sandbox) {
  const auto error = report.find("error");
  if (error != report.end() && error->is_object() && text_at(report, "outcome") != "trapped") {
    print(stderr, "membrane: " + text_at(*error, "message") + "\n");
    if (const std::string hint = text_at(*error, "hint"); !hint.empty())
      print(stderr, "  hint: " + in_words_of_command(hint, sandbox) + "\n");
  }
  const auto code = report.find("exit_code");
  if (code != report.end() && code->is_number_integer()) return code->get<int>() & 0xff;
  return kExitGuest;
}

}  // namespace

// The format that service/tokens.h generates.
bool is_sandbox_id(std::string_view word) {
  constexpr std::string_view kPrefix = "sbx", kLetters = "abcdefghijklmnopqrstuvwxyz234567";
  constexpr size_t kRandomLetters = 32;
  return word.size() == kPrefix.size() + kRandomLetters && word.starts_with(kPrefix) &&
         word.find_first_not_of(kLetters, kPrefix.size()) == std::string_view::npos;
}

Result<int> run_remote_shell(const RemoteShell& shell, std::atomic<bool>& cancelled) {
  MEMBRANE_ASSIGN(Remote remote, Remote::open(shell.remote));
  MEMBRANE_ASSIGN(Remote for_input, Remote::open(shell.remote));
  MEMBRANE_ASSIGN(Remote for_size, Remote::open(shell.remote));
  MEMBRANE_ASSIGN(auto terminal, OuterTerminal::take(cancelled));
  MEMBRANE_ASSIGN(const Json begun, remote.send_json(json_request("POST", of_sandbox(shell.sandbox, {"exec"}),
                                                                  turn_of(shell))));
  const std::string exec = text_at(begun, "exec_id");
  std::optional<Json> report;
  Status read;
  {
    RemoteCommand command(std::move(for_size), of_sandbox(shell.sandbox, {"execs", exec, "terminal"}));
    const auto companion = terminal->accompany(command);
    const RemoteInput input(std::move(for_input), shell.sandbox, exec);
    remote.set_cancel(&cancelled);
    RemoteRequest request = events_of(shell.sandbox, exec, "");
    request.query.emplace_back("hang_up", "true");
    read = remote.stream(request, [&report](const agent::SseEvent& event) {
      auto data = read_ordered_json(event.data, "the event", kEventLimits);
      if (!data) return;
      if (event.type == "stdout" || event.type == "stderr") OuterTerminal::write(output_in(*data));
      else if (event.type == "report") report = *std::move(data);
    });
  }
  terminal.reset();  // before any message
  if (report) return exit_code_in(*report, shell.sandbox);
  if (!read && read.error().code != ErrorCode::kCancelled) return std::unexpected(read.error());
  return cancelled ? kExitAsked : kExitMembrane;
}

}  // namespace membrane::cli
