// membrane serve: executes membrane-service, a separate program, so that no other command pays for its needs.

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/shared_library.h"
#include "cli/cli.h"

namespace membrane::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kProgram = "membrane-service";

// Next to the command, or where an installation puts it.
Result<fs::path> find_service() {
  std::error_code unknown, absent;
  const fs::path here = fs::read_symlink("/proc/self/exe", unknown).parent_path();
  for (const fs::path& candidate : {here / kProgram, here / ".." / "libexec" / "membrane" / kProgram})
    if (!unknown && fs::is_regular_file(candidate, absent)) return candidate.lexically_normal();
  return fail(
      ErrorCode::kNotFound,
      std::string(kProgram) + " is neither beside the command nor in ../libexec/membrane",
      "Build it: cmake --build --preset release --target membrane-service; or install Membrane whole.");
}

// The service is linked with these; the dynamic linker would name the first missing one, and no package.
Status check_libraries() {
  MEMBRANE_TRY(SharedLibrary::open("libssl.so.3", "libssl3"));
  MEMBRANE_TRY(SharedLibrary::open("libarchive.so.13", "libarchive13"));
  return {};
}

// A missing library is this machine's fault, and not the request's.
int complain_of_machine(const Error& error) {
  complain(error);
  return kExitMembrane;
}

int serve(const std::vector<std::string>& words) {
  if (const Status there = check_libraries(); !there) return complain_of_machine(there.error());
  const auto program = find_service();
  if (!program) return complain_of_machine(program.error());
  std::vector<std::string> arguments = {"membrane serve"};
  arguments.insert(arguments.end(), words.begin(), words.end());
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  execv(program->c_str(), pointers.data());
  return complain_of_machine(
      {ErrorCode::kUnavailable, "cannot start " + program->string() + ": " + std::strerror(errno), ""});
}

}  // namespace

void add_serve(CLI::App& app, int& exit_code) {
  CLI::App* const command = app.add_subcommand(
      "serve", "Serve sandboxes over HTTP: REST with server-sent events (serve --help says more)");
  command->set_help_flag("");  // the executed program has its own
  command->prefix_command();
  command->footer(
      "Example:\n"
      "  membrane serve --port 7400\n");
  command->callback([command, &exit_code] { exit_code = serve(command->remaining()); });
}

}  // namespace membrane::cli
