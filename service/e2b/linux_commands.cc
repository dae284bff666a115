#include "service/e2b/linux_commands.h"

#include <atomic>

#include "base/base64.h"
#include "base/text.h"
#include "service/e2b/command_stream.h"

namespace membrane::service::e2b {
namespace {

constexpr std::string_view kBash = "/bin/bash", kShell = "/bin/sh";

// The start directory of a command: relative paths start at the home of its user, which the sandbox knows for
// named users.
std::string directory_of(const Command& command, std::string_view user) {
  const std::string given = command.directory.value_or("");
  if (user.empty()) return absolute_path(given);
  if (given == "~") return "";
  return given.starts_with("~/") ? given.substr(2) : given;
}

// Prepares what the command needs; returns the program, which is another shell where there is no bash.
Answer<std::string> prepare(Guest& guest, const Command& command, const std::string& directory,
                            bool is_usual_user) {
  const auto stat = [&](const std::string& path) {
    return guest.act_on_files("", {.act = wasi::FileAct::kStat, .path = path});
  };
  if (is_usual_user)
    if (const auto made = guest.make_home(std::string(kHome)); !made) return std::unexpected(made.error());
  if (directory.starts_with('/')) {
    const auto facts = stat(directory);
    if (!facts || facts->front().type != wasi::FileType::kDirectory)
      return refuse(ApiCode::kInvalidValue,
                    "cwd '" + command.directory.value_or(directory) + "' does not exist");
  }
  return command.program == kBash && !stat(std::string(kBash)) ? std::string(kShell) : command.program;
}

// The first one answers: the command's start, or its end if it never started.
void begin(const Service& service, const SharedCall& call, CommandStart start, ExecSpec spec) {
  const auto is_answered = std::make_shared<std::atomic<bool>>(false);
  spec.hear_begun = [call, is_answered, command = std::move(start.command)](const std::shared_ptr<Exec>& exec,
                                                                            int process_id) {
    Command begun = command;
    begun.exec = exec;
    begun.pid = static_cast<uint32_t>(process_id);
    call->known->add_command(begun);
    if (!is_answered->exchange(true)) stream_command(call, begun, exec);
  };
  const auto exec = service.sandboxes.exec(call->actor(), call->known->id, std::move(spec));
  if (!exec) return refuse_stream(call, rpc_error(exec.error()));
  (*exec)->when_done([call, is_answered, of = std::weak_ptr<Exec>(*exec)] {
    if (is_answered->exchange(true)) return;
    if (const auto over = of.lock()) refuse_stream(call, why_not_begun(*over));
  });
}

}  // namespace

std::string user_of(const RequestHead& head) {
  constexpr std::string_view kBasic = "basic ";
  const std::string_view given = head.headers.find("Authorization").value_or("");
  if (lower_case(given.substr(0, kBasic.size())) != kBasic) return "";
  const auto pair = base64_decode(trimmed(given.substr(kBasic.size())));
  return pair ? pair->substr(0, pair->find(':')) : "";
}

void start_linux_command(const Service& service, const SharedCall& call, CommandStart start) {
  const std::string user = user_of(call->request);
  const std::string directory = directory_of(start.command, user);
  const auto shared = std::make_shared<CommandStart>(std::move(start));
  service.sandboxes.with_files(
      call->actor(), call->known->id,
      [shared, directory, is_usual_user = user.empty()](Guest& guest) {
        return prepare(guest, shared->command, directory, is_usual_user);
      },
      [service, call, shared, directory, user](const Answer<std::string>& program) {
        if (!program) return refuse_stream(call, rpc_error(program.error()));
        ExecSpec spec;
        spec.command = {*program};
        spec.command.insert(spec.command.end(), shared->command.arguments.begin(),
                            shared->command.arguments.end());
        spec.timeout_ms = shared->timeout_ms;
        spec.environment = shared->command.environment;
        spec.open_stdin = shared->takes_input || shared->terminal;
        spec.directory = directory;
        spec.terminal = shared->terminal;
        spec.user = user;
        spec.other_bytes = bytes_of(shared->command);
        begin(service, call, std::move(*shared), std::move(spec));
      });
}

}  // namespace membrane::service::e2b
