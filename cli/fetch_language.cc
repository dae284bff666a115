#include "cli/fetch_language.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "lang/package.h"

namespace membrane::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kScript = "get-languages";

// Next to the installed program, or in the sources that it was built from.
std::string script_path() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) return "";
  const fs::path folder = program.parent_path();
  for (const fs::path& place : {folder.parent_path() / "share/membrane" / kScript,
                                folder.parent_path().parent_path() / "tools" / kScript})
    if (fs::is_regular_file(place, error)) return place.string();
  return "";
}

// Runs it and returns its exit code. Its output is this process's. Errors: kUnsupported.
Result<int> run(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child = 0;
  if (const int why = posix_spawnp(&child, arguments[0], nullptr, nullptr, arguments.data(), environ);
      why != 0)
    return fail(ErrorCode::kUnsupported, words[0] + " cannot be started: " + std::strerror(why),
                "Install it: apt install " + words[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

bool is_fetched(std::string_view name) { return name == "python" || name == "js"; }

Status fetch_language(const std::string& name, const std::vector<std::string>& warm) {
  const std::string script = script_path();
  if (script.empty())
    return fail(ErrorCode::kUnsupported, "this installation has no " + std::string(kScript),
                "Run tools/get-languages of Membrane's sources.");
  std::vector<std::string> words = {"python3", script, name, "--directory",
                                    lang::package_directories().front()};
  for (const std::string& list : warm) words.insert(words.end(), {"--warm", list});
  MEMBRANE_ASSIGN(const int code, run(std::move(words)));
  if (code == 0) return {};
  return fail(ErrorCode::kUnavailable, name + " could not be installed",
              "See the messages above. It is installed with " +
                  std::string(name == "python" ? "pip" : "npm") + ", with its settings.");
}

}  // namespace membrane::cli
