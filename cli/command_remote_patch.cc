// Commands for a service: diff, patch.

#include "base/json.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/command_remote.h"
#include "cli/remote.h"

namespace membrane::cli {
namespace {

constexpr uint64_t kMostPatchBytes = 64u << 20;  // as the service's own limit

struct PatchOptions {
  RemoteOptions remote;
  std::string id, file, directory, since;
  bool json = false;
};

RemoteRequest request_of(const PatchOptions& options) {
  RemoteRequest request = {.path = of_sandbox(options.id, {"patch"})};
  if (!options.directory.empty()) request.query.emplace_back("directory", options.directory);
  if (!options.since.empty()) request.query.emplace_back("since", options.since);
  return request;
}

Result<int> diff(const PatchOptions& options) {
  MEMBRANE_ASSIGN(Remote remote, Remote::open(options.remote));
  MEMBRANE_ASSIGN(const std::string patch, remote.send(request_of(options)));
  print(stdout, patch);
  return kExitOk;
}

Result<int> patch(const PatchOptions& options) {
  RemoteRequest request = request_of(options);
  request.method = "POST";
  request.content_type = "text/x-patch";
  MEMBRANE_ASSIGN(request.body, read_input(options.file, kMostPatchBytes));
  MEMBRANE_ASSIGN(Remote remote, Remote::open(options.remote));
  MEMBRANE_ASSIGN(const Json answer, remote.send_json(request));
  if (options.json) print_json(answer);
  else print(count_of(number_at(answer, "changed_files"), "file") + " changed\n");
  return kExitOk;
}

void add_common(CLI::App& command, PatchOptions& options) {
  command.add_option("id", options.id, "The sandbox")->required()->type_name("ID");
  command
      .add_option("--directory", options.directory, "The directory that paths are relative to (default: /)")
      ->type_name("PATH");
}

}  // namespace

void add_remote_patch(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<PatchOptions>();
  CLI::App* const diff_command =
      app.add_subcommand("diff", "Print the changes of a Linux sandbox of a service as a git patch");
  add_common(*diff_command, *options);
  diff_command
      ->add_option("--since", options->since,
                   "Show the changes since this snapshot (default: since its image)")
      ->type_name("SNAPSHOT");
  options->remote.add_to(*diff_command);
  diff_command->footer(
      "A patch omits owners, empty directories, pipes, devices and the contents of .git directories.\n\n"
      "Examples:\n  membrane diff $ID\n"
      "  membrane cp -r repo $ID:/root/repo\n  SNAPSHOT=$(membrane snapshot $ID)\n"
      "  membrane diff $ID --since $SNAPSHOT --directory /root/repo | git -C repo apply");
  diff_command->callback([options, &exit_code] { exit_code = finish(diff(*options)); });

  CLI::App* const patch_command =
      app.add_subcommand("patch", "Apply a git patch to the files of a Linux sandbox of a service");
  add_common(*patch_command, *options);
  patch_command->add_option("file", options->file, "The patch; - is standard input")
      ->required()
      ->type_name("FILE");
  patch_command->add_flag("--json", options->json, "Print the answer as JSON");
  options->remote.add_to(*patch_command);
  patch_command->footer(
      "All of it is applied, or nothing.\n\n"
      "Examples:\n  git diff --binary | membrane patch $ID - --directory /root/repo\n  membrane patch $ID "
      "fix.patch");
  patch_command->callback([options, &exit_code] { exit_code = finish(patch(*options), options->json); });
}

}  // namespace membrane::cli
