// membrane run --kind linux: the words are a command of an image, or a script for its shell.
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/command_run.h"
#include "cli/interrupt.h"
#include "cli/linux_run.h"
#include "cli/seal.h"
#include "host/egress/http_egress.h"
#include "linux/platform/trap/host_file.h"

namespace membrane::cli {
namespace {

// Options that only the other kinds have are refused, not ignored.
Status check_for_linux(const RunCommandOptions& options) {
  const std::pair<bool, const char*> absent[] = {{!options.language.empty(), "--lang"},
                                                 {options.entry.has_value(), "--invoke"},
                                                 {!options.journal_file.empty(), "--journal"},
                                                 {!options.replay_file.empty(), "--replay"},
                                                 {!options.freeze_after.empty(), "--freeze-after"},
                                                 {!options.snapshot_file.empty(), "--snapshot"},
                                                 {!options.out.empty(), "--out"},
                                                 {options.tier != "auto", "--tier"},
                                                 {!options.code_cache.empty(), "--code-cache"},
                                                 {options.in_process, "--in-process"},
                                                 {options.packages.given(), "--with"}};
  for (const auto& [is_given, name] : absent)
    if (is_given)
      return fail(ErrorCode::kUnsupported, std::string(name) + " is not for --kind linux",
                  "Remove it; docs/linux.md lists the options of this kind.");
  if (!options.has_terminal) return {};
  if (!options.seal_file.empty())
    return fail(ErrorCode::kUnsupported, "what is typed on a terminal is not sealed",
                "Leave --tty or --seal out.");
  if (options.json)
    return fail(ErrorCode::kInvalidArgument, "--json keeps what a command prints, and --tty shows it",
                "Remove one of them.");
  if (!options.input_file.empty())
    return fail(ErrorCode::kInvalidArgument,
                "with --tty the terminal is the input, and --input names another", "Remove one of them.");
  return {};
}

// The file of --input, unread: standard input for "" and "-".
class HostInput {
 public:
  static Result<HostInput> open(const std::string& path) {
    HostInput input;
    if (path.empty() || path == "-") return input;
    // A FIFO that nobody writes to yet has no input yet.
    input.file_ = linux::HostFile(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!input.file_)
      return fail(ErrorCode::kNotFound, path + " cannot be read: " + std::strerror(errno), "");
    return input;
  }
  [[nodiscard]] int number() const { return file_ ? file_.number() : STDIN_FILENO; }
  // The whole input, for a receipt: it is read to its end first. A terminal gives nothing.
  Result<std::string> read_all(const policy::Limits& limits) {
    const uint64_t most_bytes = limits.bytes_in;
    std::string bytes;
    if (!file_ && is_terminal(stdin)) return bytes;
    std::string piece(64u << 10, '\0');
    const Clock::time_point deadline = Clock::now() + std::chrono::milliseconds(limits.wall_ms);
    for (;;) {
      if (!wait(deadline))
        return fail(ErrorCode::kExhausted,
                    "reading the input takes longer than the " + std::to_string(limits.wall_ms) +
                        " ms that the run may take",
                    "Raise --wall.");
      const ssize_t count = ::read(number(), piece.data(), piece.size());
      if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (count < 0)
        return fail(ErrorCode::kUnavailable,
                    std::string("the input cannot be read: ") + std::strerror(errno));
      if (count == 0) break;
      bytes.append(piece, 0, static_cast<size_t>(count));
      if (bytes.size() > most_bytes)
        return fail(ErrorCode::kExhausted, "the input has more than " + count_of(most_bytes, "byte"),
                    "Remove --seal, or raise --bytes-in.");
    }
    linux::HostFile again(memfd_create("membrane-input", MFD_CLOEXEC));
    for (size_t at = 0; again && at < bytes.size();) {
      const ssize_t done =
          ::pwrite(again.number(), bytes.data() + at, bytes.size() - at, static_cast<off_t>(at));
      if (done <= 0) return fail(ErrorCode::kExhausted, "there is not enough memory for the command's input");
      at += static_cast<size_t>(done);
    }
    file_ = std::move(again);
    return bytes;
  }

 private:
  using Clock = std::chrono::steady_clock;
  // False: nothing came before that time.
  [[nodiscard]] bool wait(Clock::time_point deadline) const {
    for (pollfd asked{.fd = number(), .events = POLLIN, .revents = 0};;) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
      if (left <= 0) return false;
      const int ready = poll(&asked, 1, static_cast<int>(std::min<int64_t>(left, INT32_MAX)));
      if (ready != 0 && !(ready < 0 && errno == EINTR)) return true;
    }
  }
  linux::HostFile file_;
};

// A script for the sandbox's shell, with its name and its arguments.
std::vector<std::string> shell_command(std::string script, std::string name) {
  return {"/bin/sh", "-c", "s=/bin/sh; [ -x /bin/bash ] && s=/bin/bash; exec $s -c \"$0\" \"$@\"",
          std::move(script), std::move(name)};
}

// Whether the first line names a shell: sh, bash or dash, however they are found.
bool is_for_shell(std::string_view script) {
  if (!script.starts_with("#!")) return false;
  std::string_view line = script.substr(2, script.find('\n') - 2);
  line = line.substr(0, line.find_last_not_of(" \t\r") + 1);
  const std::string_view word = line.substr(line.find_last_of(" /") + 1);
  return word == "sh" || word == "bash" || word == "dash";
}

bool is_shell_file(const std::string& path) {
  if (path.ends_with(".sh")) return true;
  return is_for_shell(head_of(path, 128));
}

// Whether the word in a command's place is a script of this machine for the sandbox's shell. If the kind is
// named, a path belongs to the sandbox, and so does a name that is not a script's.
bool is_script_here(const RunCommandOptions& options, bool is_guessed) {
  if (options.text || options.file.empty()) return false;
  if (options.file == "-") return true;
  if (!is_guessed && options.file.contains('/')) return false;
  std::error_code error;
  return std::filesystem::is_regular_file(options.file, error) && is_shell_file(options.file);
}

// What a word in a command's place probably is, rather than a command.
struct Rather {
  std::string is;           // "data is a directory here"; "" if it is no file here
  std::string hint;         // what to write; "" if nothing is known
  bool is_certain = false;  // it is no command
};

Rather what_it_is(const RunCommandOptions& options) {
  namespace fs = std::filesystem;
  const std::string& word = options.file;
  std::error_code failed;
  if (fs::is_directory(word, failed))
    return {word + " is a directory here", "Name a file in it.", options.arguments.empty()};
  std::vector<std::string> words = {word};
  words.insert(words.end(), options.arguments.begin(), options.arguments.end());
  if (std::string hint = hint_at_image("run", words); !hint.empty())
    return {word + " is an image", std::move(hint), true};
  if (word.starts_with('-'))
    return {"", "Everything after -- belongs to the program: write " + word + " before --.", true};
  if (word.find_first_of("()=;\"") != std::string::npos) return {"", kTextGoesWithE, true};
  if (!options.arguments.empty() && fs::is_regular_file(options.arguments.front(), failed))
    return {"", "To run the file: membrane run " + options.arguments.front() + "."};
  return {"", is_like_code(word) ? kTextGoesWithE : ""};
}

// The word to run is not a program of the sandbox, but a file of this machine.
void hint_at_host_file(const RunCommandOptions& options, const policy::Policy& policy, bool is_guessed,
                       sandbox::Report& report) {
  constexpr int kNotThere = 127;
  if (options.text || options.file.empty() || report.errors.empty() || report.exit_code != kNotThere ||
      report.outcome != sandbox::Outcome::kInvalid)
    return;
  std::string& hint = report.errors.front().hint;
  std::error_code error;
  const bool is_image_named = !options.image.empty();
  if (!std::filesystem::is_regular_file(options.file, error)) {
    if (options.arguments.empty() && options.file.contains(' ')) {
      hint = "A command and its arguments are several words; pass a script for the shell with -e.";
    } else if (is_guessed && !is_image_named) {
      const Rather rather = what_it_is(options);
      hint = rather.is.empty()
                 ? "There is no file " + options.file + " here, and no such program in the image."
                 : rather.is + ".";
      if (!rather.hint.empty()) hint += " " + rather.hint;
    }
    return;
  }
  const std::string name = std::filesystem::path(options.file).filename().string();
  if (!policy.fs.empty()) {
    hint = options.file + " is a file of this machine: name it as the sandbox sees it, as ./" + name +
           " where its directory is granted.";
    return;
  }
  if (is_shell_file(options.file)) {
    hint = options.file +
           " is a script of this machine, which the sandbox does not see. Its shell runs it as " +
           (is_image_named ? "membrane run --kind linux --image " + options.image + " - < " + options.file
                           : "membrane run " + options.file) +
           "; --dir . grants this directory, as /work.";
    return;
  }
  const std::string interpreter = name.ends_with(".py") ? "python3" : name.ends_with(".js") ? "node" : "";
  hint = options.file + " is a file of this machine, which the sandbox does not see. ";
  hint += interpreter.empty() ? "--dir . grants this directory, as /work."
                              : "Give it to a program: membrane run --kind linux -- " + interpreter +
                                    " - < " + options.file + "; or grant this directory with --dir .";
}

Result<std::vector<std::string>> linux_words(const RunCommandOptions& options, bool is_script) {
  std::vector<std::string> words;
  if (options.text) {
    words = shell_command(*options.text, "-e");
    if (!options.file.empty()) words.push_back(options.file);
  } else if (is_script) {
    MEMBRANE_ASSIGN(std::string script, read_input(options.file, kMaxProgramBytes));
    words = shell_command(std::move(script), options.file);
  } else {
    if (!options.file.empty()) words = {options.file};
  }
  words.insert(words.end(), options.arguments.begin(), options.arguments.end());
  return words;
}

// Programs that talk to a person when nothing tells them what to do.
bool wants_terminal(const RunCommandOptions& options) {
  constexpr std::string_view kOnes[] = {"bash", "sh",   "python3", "python", "node",
                                        "irb",  "psql", "sqlite3", "gdb"};
  constexpr std::string_view kEditors[] = {"vi", "vim", "nano", "emacs", "less", "top", "htop"};
  if (options.has_terminal || options.text) return false;
  const auto is_one = [&](const auto& names) {
    return std::ranges::find(names, options.file) != std::end(names);
  };
  return is_one(kEditors) || (is_one(kOnes) && options.arguments.empty());
}

}  // namespace

// If no kind is named, chooses the least powerful one that works: a word that is not a file here is a command
// of an image, and a shell script needs one. Returns why it is Linux; "" when it is not.
std::string why_linux(const RunCommandOptions& options) {
  if (!options.image.empty()) return "--image names one";
  if (options.is_thaw || options.text || options.file.empty() || options.file == "-" ||
      !options.language.empty())
    return "";
  std::error_code error;
  // A directory is not a program: `node -v` in a place with a directory node.
  if (!std::filesystem::exists(options.file, error) || std::filesystem::is_directory(options.file, error))
    return options.file.find_first_of("./") == std::string::npos
               ? "there is no file " + options.file + " here, and a command may have that name"
               : "";
  return is_shell_file(options.file) ? options.file + " is a script for a shell" : "";
}

Error error_of_guess(Error error, const RunCommandOptions& options) {
  namespace fs = std::filesystem;
  if (!options.image.empty()) return error;
  std::error_code failed;
  if (fs::is_regular_file(options.file, failed)) {
    error.message = options.file + " is a script for a shell, and runs in Linux: " + error.message;
    return error;
  }
  const Rather rather = what_it_is(options);
  const std::string of_linux = error.hint.empty() ? "" : " For a command of Linux: " + error.hint;
  error.hint = (rather.hint.empty() ? "Check the path." : rather.hint) + (rather.is_certain ? "" : of_linux);
  if (!rather.is.empty()) error.message = rather.is;
  else if (rather.is_certain) error.message = "there is no file " + options.file + " here";
  else
    error.message =
        "there is no file " + options.file + " here, so it was taken for a Linux command: " + error.message;
  return error;
}

// `--kind linux`: the words are a command, not a program's file. `why`: the reason, if no kind was named.
Result<int> run_in_linux(const RunCommandOptions& options, const std::string& why) {
  LinuxCommand command;
  const bool is_guessed = !why.empty() && options.image.empty(),
             is_script = is_script_here(options, is_guessed);
  command.is_whole = options.text.has_value() || is_guessed || is_script;
  command.image = options.image;
  command.directory = options.directory;
  command.platform = options.platform;
  command.diff_file = options.diff_file;
  MEMBRANE_ASSIGN(command.arguments, linux_words(options, is_script));
  MEMBRANE_ASSIGN(command.environment, linux_environment(options.environment));
  MEMBRANE_TRY(check_for_linux(options));
  MEMBRANE_ASSIGN(command.policy,
                  linux_policy(options.policy, options.has_terminal ? terminal_limits() : linux_limits()));
  MEMBRANE_TRY(host::check_granted_secrets(command.policy.http));
  if (options.deterministic)
    command.deterministic =
        linux::Determinism{.start_ms = command.policy.time.start_ms, .seed = command.policy.random.seed};
  HostInput input;
  MEMBRANE_ASSIGN(input, HostInput::open(options.input_file));
  MEMBRANE_ASSIGN(const auto seal, RunSeal::open(options.seal_file, options.force));
  if (seal != nullptr) {
    MEMBRANE_ASSIGN(std::string given, input.read_all(command.policy.limits));
    command.on_made = [&seal, given = std::move(given)](std::string description,
                                                        sandbox::Invocation invocation) {
      invocation.given_input = given;
      seal->in_computer(std::move(description), std::move(invocation));
    };
  }
  command.input = input.number();
  command.has_terminal = options.has_terminal;
  if (wants_terminal(options) && options.input_file.empty() && is_terminal(stdin) && is_terminal(stdout))
    print(stderr, "note: " + options.file +
                      " has no terminal here; -t gives it this one, and membrane shell is one\n");
  catch_interrupt();
  ProgramOutput output;
  if (!options.json) {
    command.on_output = [&](std::string_view bytes) {
      output.write_out(bytes);
      std::fflush(stdout);  // readers of a pipe or file see it at once, even if this process dies
    };
    command.on_error = [&](std::string_view bytes) { output.write_error(bytes); };
  }
  MEMBRANE_ASSIGN(sandbox::Report report, run_linux(command, interrupt_flag()));
  report.kind_reason = why;
  hint_at_host_file(options, command.policy, is_guessed, report);
  name_interrupt(report);
  output.finish();
  sandbox::Program program;
  if (!command.arguments.empty()) program.source = command.arguments.front();
  const Status sealed = seal == nullptr ? Status() : seal->finish(program, command.policy, report);
  show_report(report, options);
  if (!sealed) return complain_unsealed(sealed.error());
  if (seal != nullptr && !options.quiet && !options.json) seal->announce();
  return exit_code_after(report);
}

}  // namespace membrane::cli
