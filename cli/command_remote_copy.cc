// Of a service: cp.

#include <filesystem>

#include "base/terminal.h"
#include "cli/cli.h"
#include "cli/command_remote.h"
#include "cli/remote.h"

namespace membrane::cli {
namespace {

constexpr uint64_t kMostFileBytes = 64u << 20;  // as the service's own limit

struct CopyOptions {
  RemoteOptions remote;
  std::string from, to;
};

struct Place {
  std::string sandbox;  // "": on this machine
  std::string path;
};

// "ID:/path" is in a sandbox.
Place place_of(const std::string& word) {
  const size_t at = word.find(":/");
  if (at == std::string::npos || at == 0 || word.find('/') < at) return {"", word};
  return {word.substr(0, at), word.substr(at + 1)};
}

// "sbx…:data.csv": meant for a sandbox, where every path is absolute.
Status check_absolute(const std::string& word) {
  const size_t at = word.find(':');
  if (at == std::string::npos || !word.starts_with("sbx") || word.find('/') < at || word[at + 1] == '/')
    return {};
  return fail(ErrorCode::kInvalidArgument, "the path in the sandbox is not absolute: " + word,
              "Write it from / on: " + word.substr(0, at) + ":/tmp/" + word.substr(at + 1));
}

Result<int> copy_to(Remote& remote, const Place& from, Place to) {
  MEMBRANE_ASSIGN(std::string bytes, read_input(from.path, kMostFileBytes));
  if (to.path.ends_with('/')) to.path += std::filesystem::path(from.path).filename().string();
  MEMBRANE_TRY(remote.send({.method = "PUT",
                            .path = of_sandbox(to.sandbox, {"files"}),
                            .query = {{"path", to.path}},
                            .body = std::move(bytes),
                            .content_type = "application/octet-stream"}));
  return kExitOk;
}

Result<int> copy_from(Remote& remote, const Place& from, Place to) {
  MEMBRANE_ASSIGN(const std::string bytes,
                  remote.send({.path = of_sandbox(from.sandbox, {"files"}), .query = {{"path", from.path}}}));
  if (to.path == "-") {
    print_styled(stdout, bytes);
    return kExitOk;
  }
  std::error_code error;
  if (to.path.ends_with('/') || std::filesystem::is_directory(to.path, error))
    to.path = (std::filesystem::path(to.path) / std::filesystem::path(from.path).filename()).string();
  MEMBRANE_TRY(write_output(to.path, bytes));
  return kExitOk;
}

Result<int> copy(const CopyOptions& options) {
  for (const std::string& word : {options.from, options.to}) MEMBRANE_TRY(check_absolute(word));
  const Place from = place_of(options.from), to = place_of(options.to);
  if (from.sandbox.empty() == to.sandbox.empty())
    return fail(ErrorCode::kInvalidArgument,
                "one of the two places is in a sandbox, and the other on this machine",
                "Write it as membrane cp data.csv ID:/tmp/ or membrane cp ID:/tmp/data.csv .");
  MEMBRANE_ASSIGN(Remote remote, Remote::open(options.remote));
  return from.sandbox.empty() ? copy_to(remote, from, to) : copy_from(remote, from, to);
}

}  // namespace

void add_remote_copy(CLI::App& app, int& exit_code) {
  CLI::App* const command =
      app.add_subcommand("cp", "Copy a file into a sandbox of a service, or out of one");
  const auto options = std::make_shared<CopyOptions>();
  command->add_option("from", options->from, "A file, or ID:/path of one in a sandbox")
      ->required()
      ->type_name("FROM");
  command->add_option("to", options->to, "The same; - prints it, and a directory keeps the file's name")
      ->required()
      ->type_name("TO");
  options->remote.add_to(*command);
  command->footer("Examples:\n  membrane cp data.csv $ID:/tmp/\n  membrane cp $ID:/tmp/data.csv copy.csv");
  command->callback([options, &exit_code] { exit_code = finish(copy(*options)); });
}

}  // namespace membrane::cli
