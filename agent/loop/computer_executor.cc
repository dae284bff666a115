#include "agent/loop/computer_executor.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <deque>
#include <filesystem>
#include <fstream>
#include <utility>

#include "agent/actions/computer_actions.h"
#include "base/text.h"
#include "computers/command_run.h"
#include "linux/platform/trap/host_file.h"

namespace membrane::agent {

namespace {

constexpr uint64_t kMostFileBytes = 16u << 20;  // for a file that is edited or read
constexpr size_t kMostCheckpoints = 16;
constexpr uint64_t kMostCheckpointBytes = 512u << 20;  // for all together: they are in memory
constexpr uint64_t kUsualLines = 200;
constexpr uint64_t kMostCopiedBytes = 1u << 30;
constexpr size_t kMostCopiedFiles = 200'000;

constexpr std::string_view kLookedFor[] = {"bash",  "python3", "pip3",  "pytest",  "git",   "gcc",   "g++",
                                           "clang", "make",    "cmake", "cargo",   "rustc", "go",    "node",
                                           "npm",   "java",    "rg",    "grep",    "sed",   "awk",   "patch",
                                           "curl",  "wget",    "jq",    "sqlite3", "tar",   "unzip", "vim",
                                           "nano",  "strace",  "gdb",   "perl",    "ruby",  "php"};

sandbox::Report refused(std::string code, std::string message, std::string hint) {
  sandbox::Report report;
  report.outcome = sandbox::Outcome::kInvalid;
  sandbox::ReportError& error = report.errors.emplace_back();
  error.code = std::move(code);
  error.message = std::move(message);
  error.hint = std::move(hint);
  return report;
}

// Errors of files are for the model to fix; a lost sandbox is not.
sandbox::Report refused(const Error& error) {
  sandbox::Report report = sandbox::refusal(error);
  if (error.code == ErrorCode::kUnavailable) report.outcome = sandbox::Outcome::kFailed;
  return report;
}

uint64_t number_in(const std::vector<std::string>& words, size_t at, uint64_t otherwise) {
  if (at >= words.size()) return otherwise;
  uint64_t value = otherwise;
  std::from_chars(words[at].data(), words[at].data() + words[at].size(), value);
  return std::max<uint64_t>(value, 1);
}

size_t times_in(std::string_view text, std::string_view part) {
  size_t times = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) ++times;
  return times;
}

// The file's lines from this number on, with their numbers.
std::string lines_of(std::string_view text, uint64_t first, uint64_t count) {
  const auto all =
      static_cast<uint64_t>(std::ranges::count(text, '\n')) + (text.empty() || text.ends_with('\n') ? 0 : 1);
  size_t begin = 0;
  for (uint64_t line = 1; line < first && begin < text.size(); ++line)
    begin = std::min(text.find('\n', begin), text.size() - 1) + 1;
  size_t end = begin;
  uint64_t shown = 0;
  for (; shown < count && end < text.size(); ++shown)
    end = std::min(text.find('\n', end), text.size() - 1) + 1;
  if (shown == 0) return "[the file has " + count_of(all, "line") + "]\n";
  std::string out(text.substr(begin, end - begin));
  if (!out.ends_with('\n')) out += '\n';
  if (shown < all)
    out += "[lines " + std::to_string(first) + " to " + std::to_string(first + shown - 1) + " of " +
           std::to_string(all) + "]\n";
  return out;
}

// The state of files before a step.
struct Checkpoint {
  linux::HostFile file;
  uint64_t bytes = 0;
};

class Computer {
 public:
  Computer(ComputerExecutorOptions options, std::shared_ptr<linux::LiveComputer> first)
      : options_(std::move(options)), computer_(std::move(first)) {
    if (options_.receipts != nullptr) recorder_ = options_.receipts->new_recorder();
  }

  sandbox::Report act(const Program& program, const StepContext& context) {
    if (const Status ready = prepare(context.conversation); !ready) return refused(ready.error());
    sandbox::Report report = act_on(program, context);
    report.platform = computer_->platform();
    if (report.run_us == 0) report.run_us = 1;
    if (recorder_ != nullptr) seal(program, report);
    return report;
  }

 private:
  // Another conversation gets another sandbox.
  Status prepare(uint64_t conversation) {
    if (conversation_ && *conversation_ != conversation) {
      computer_.reset();
      checkpoints_.clear();
      if (options_.receipts != nullptr) recorder_ = options_.receipts->new_recorder();
    }
    conversation_ = conversation;
    if (computer_ != nullptr) return {};
    MEMBRANE_ASSIGN(computer_, options_.create(-1));
    return {};
  }

  sandbox::Report act_on(const Program& program, const StepContext& context) {
    const std::string& entry = program.entry;
    if (entry == kReadEntry) return read(program);
    if (entry == kSearchEntry) return search(program, context);
    if (entry == kDiffEntry) return diff();
    if (entry == kUndoEntry) return undo(number_in(program.arguments, 0, 1));
    const std::string unkept = keep();
    sandbox::Report report = entry == kWriteEntry  ? write(program)
                             : entry == kEditEntry ? edit(program)
                                                   : run(program, context);
    // Nothing was changed, so there is nothing to undo.
    if (report.outcome == sandbox::Outcome::kInvalid && unkept.empty()) drop_last();
    if (!unkept.empty()) report.stderr_text += unkept;
    return report;
  }

  [[nodiscard]] std::string path_of(const std::string& path) const {
    return (std::filesystem::path(options_.directory) / path).lexically_normal().string();
  }
  [[nodiscard]] static std::string path_in(const Program& program) {
    return program.arguments.empty() ? "" : program.arguments.front();
  }

  sandbox::Report run(const Program& program, const StepContext& context) {
    const bool has_bash = computer_->stat("/bin/bash", true).has_value();
    policy::Limits limits = options_.policy.limits;
    const uint64_t most_s = limits.wall_ms / 1000;
    if (const uint64_t wanted_s = number_in(program.arguments, 0, UINT64_MAX); wanted_s < most_s)
      limits.wall_ms = wanted_s * 1000;
    return run_words({has_bash ? "/bin/bash" : "/bin/sh", "-c", program.source}, program.input, limits,
                     context);
  }
  // Only the user can change limits, and does not read this.
  [[nodiscard]] std::string hint_of(sandbox::Outcome outcome, const policy::Limits& limits) const {
    const uint64_t most_ms = options_.policy.limits.wall_ms;
    switch (outcome) {
      case sandbox::Outcome::kTimedOut:
        return (limits.wall_ms < most_ms
                    ? "Give it more time: timeout_s may be " + std::to_string(most_ms / 1000) + " at most. Or"
                    : "No command has more time. Make it do less, or") +
               std::string(" start it with & and its output in a file, and look there later.");
      case sandbox::Outcome::kOutOfOutput:
        return "Print less: write it to a file, and look at parts of that.";
      case sandbox::Outcome::kOutOfMemory: return "There is no more: work on less at a time.";
      case sandbox::Outcome::kOutOfCpu: return "There is no more: give your answer.";
      default: return "";
    }
  }
  sandbox::Report run_words(std::vector<std::string> words, const std::string& input,
                            const policy::Limits& limits, const StepContext& context) {
    computers::CommandRun command;
    command.spec.arguments = std::move(words);
    command.spec.environment = options_.environment;
    command.spec.directory = options_.directory;
    command.limits = limits;
    command.input = input;
    command.on_output = context.on_stdout;
    command.is_cancelled = [&context] { return context.cancel != nullptr && context.cancel->load(); };
    if (options_.before_command) options_.before_command();
    sandbox::Report report = computers::run_command(*computer_, std::move(command));
    if (options_.after_command) options_.after_command(report);
    if (std::string hint = hint_of(report.outcome, limits); !hint.empty() && !report.errors.empty())
      report.errors.front().hint = std::move(hint);
    return report;
  }

  sandbox::Report write(const Program& program) {
    const std::string path = path_of(path_in(program));
    const auto before = computer_->stat(path, true);
    const uint32_t mode = before ? before->mode & 07777 : 0644;
    if (const Status written = computer_->write_file(path, program.source, mode); !written)
      return refused(written.error());
    sandbox::Report report;
    report.stdout_text =
        (before ? "replaced " : "wrote ") + path + ": " + count_of(program.source.size(), "byte") + "\n";
    return report;
  }

  Result<std::string> content_of(const std::string& path) {
    MEMBRANE_ASSIGN(const linux::FileFacts facts, computer_->stat(path, true));
    if (!S_ISREG(facts.mode)) return fail(ErrorCode::kInvalidInput, path + " is not a file");
    if (facts.size > kMostFileBytes)
      return fail(ErrorCode::kTooLong, path + " has " + count_of(facts.size, "byte"),
                  "Take it apart by commands.");
    return computer_->read_file(path, 0, kMostFileBytes);
  }

  sandbox::Report edit(const Program& program) {
    const std::string path = path_of(path_in(program));
    auto text = content_of(path);
    if (!text) return refused(text.error());
    const size_t times = times_in(*text, program.input);
    if (times != 1)
      return refused("edit", "the old text stands " + count_of(times, "time") + " in " + path,
                     times == 0 ? "Read the file, and copy the lines exactly, blanks included."
                                : "Give more lines around it, so that it stands there once.");
    const size_t at = text->find(program.input);
    const auto line = std::ranges::count(std::string_view(*text).substr(0, at), '\n') + 1;
    text->replace(at, program.input.size(), program.source);
    const auto facts = computer_->stat(path, true);
    if (!facts) return refused(facts.error());
    if (const Status written = computer_->write_file(path, *text, facts->mode & 07777); !written)
      return refused(written.error());
    sandbox::Report report;
    report.stdout_text = "edited " + path + " at line " + std::to_string(line) + "\n";
    return report;
  }

  sandbox::Report read(const Program& program) {
    const auto text = content_of(path_of(path_in(program)));
    if (!text) return refused(text.error());
    if (text->contains('\0'))
      return refused("binary", path_in(program) + " is not text",
                     "Look at it by commands: file, od, strings.");
    sandbox::Report report;
    report.stdout_text =
        lines_of(*text, number_in(program.arguments, 1, 1), number_in(program.arguments, 2, kUsualLines));
    return report;
  }

  sandbox::Report search(const Program& program, const StepContext& context) {
    constexpr const char* kScript =
        "if command -v rg >/dev/null; then exec rg -n --no-heading --color=never -e \"$0\" -- \"$1\"; "
        "else exec grep -rnIE -e \"$0\" -- \"$1\"; fi";
    sandbox::Report report = run_words(
        {"/bin/sh", "-c", kScript, program.source, path_in(program).empty() ? "." : path_in(program)}, "",
        options_.policy.limits, context);
    if (report.exit_code == 1 && report.stdout_text.empty()) {
      report.exit_code = 0;
      report.stdout_text = "nothing matches\n";
    }
    return report;
  }

  sandbox::Report diff() {
    if (!options_.diff) return refused("diff", "changes cannot be listed here", "In a repository: git diff.");
    auto patch = options_.diff(*computer_);
    if (!patch) return refused(patch.error());
    sandbox::Report report;
    report.stdout_text = patch->empty() ? "nothing has changed\n" : *std::move(patch);
    return report;
  }

  // -- checkpoints

  // Why the files could not be saved, for the model; "" when they were.
  std::string keep() {
    const auto why = [](const std::string& reason) {
      return "[there is no undo of this step: " + reason + "]\n";
    };
    auto file = linux::memory_to_keep_in();
    if (!file) return why(file.error().message);
    Checkpoint made{*std::move(file)};
    if (const Status kept = computer_->keep(made.file.number(), linux::LiveComputer::Keep::kFiles); !kept) {
      checkpoints_.clear();  // earlier ones would undo this step too
      return why(kept.error().message);
    }
    struct stat facts = {};
    if (fstat(made.file.number(), &facts) != 0) return why("it cannot be read");
    made.bytes = static_cast<uint64_t>(facts.st_blocks) * 512;
    checkpoints_.push_back(std::move(made));
    uint64_t all = 0;
    for (const Checkpoint& each : checkpoints_) all += each.bytes;
    while (checkpoints_.size() > kMostCheckpoints ||
           (all > kMostCheckpointBytes && checkpoints_.size() > 1)) {
      all -= checkpoints_.front().bytes;
      checkpoints_.pop_front();
    }
    return "";
  }
  void drop_last() {
    if (!checkpoints_.empty()) checkpoints_.pop_back();
  }

  sandbox::Report undo(uint64_t steps) {
    if (checkpoints_.size() < steps)
      return refused("undo",
                     "the last " + std::to_string(checkpoints_.size()) + " changing steps can be undone",
                     "Undo no more than these, or mend what is wrong.");
    const size_t at = checkpoints_.size() - static_cast<size_t>(steps);
    auto again = options_.create(checkpoints_[at].file.number());
    if (!again) return refused(again.error());
    computer_ = *std::move(again);
    checkpoints_.resize(at);
    sandbox::Report report;
    report.stdout_text = "all files are as before the last " +
                         (steps == 1 ? std::string("step") : std::to_string(steps) + " steps") +
                         " that changed something; no process runs\n";
    return report;
  }

  // -- receipts

  void seal(const Program& program, const sandbox::Report& report) {
    sandbox::MadeOf made_of;
    made_of.source = program.source;
    made_of.invocation.name = program.name;
    made_of.invocation.entry = program.entry;
    made_of.invocation.arguments = program.arguments;
    made_of.invocation.given_input = program.input;
    made_of.computer = options_.description;
    made_of.policy = &options_.policy;
    (void)options_.receipts->keep_turn(*recorder_, std::move(made_of),
                                       report);  // which reports what it could not keep
  }

  const ComputerExecutorOptions options_;
  std::shared_ptr<linux::LiveComputer> computer_;
  std::deque<Checkpoint> checkpoints_;  // one per step, oldest first
  std::unique_ptr<sandbox::ReceiptRecorder> recorder_;
  std::optional<uint64_t> conversation_;
};

Status copy_file(linux::LiveComputer& computer, const std::filesystem::path& from, const std::string& to,
                 uint32_t mode) {
  std::ifstream in(from, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  if (!in && !in.eof()) return fail(ErrorCode::kUnavailable, from.string() + " cannot be read");
  return computer.write_file(to, bytes, mode);
}

}  // namespace

Result<std::vector<std::string>> programs_in(linux::LiveComputer& computer,
                                             const std::vector<std::string>& environment) {
  std::string script = "for p in";
  for (const std::string_view name : kLookedFor) script += " " + std::string(name);
  script += "; do command -v $p >/dev/null && echo $p; done; true";
  computers::CommandRun command;
  command.spec.arguments = {"/bin/sh", "-c", script};
  command.spec.environment = environment;
  command.spec.directory = "/";
  command.limits.wall_ms = 30'000;
  const sandbox::Report report = computers::run_command(computer, std::move(command));
  if (report.outcome != sandbox::Outcome::kOk)
    return fail(ErrorCode::kUnavailable, "the image has no shell that runs: " +
                                             (report.errors.empty() ? "" : report.errors.front().message));
  std::vector<std::string> found;
  for (const std::string_view name : kLookedFor)
    if (("\n" + report.stdout_text).contains("\n" + std::string(name) + "\n")) found.emplace_back(name);
  return found;
}

Executor computer_executor(ComputerExecutorOptions options, std::shared_ptr<linux::LiveComputer> first) {
  auto computer = std::make_shared<Computer>(std::move(options), std::move(first));
  return [computer](const Program& program, const StepContext& context) {
    return computer->act(program, context);
  };
}

Status copy_into(linux::LiveComputer& computer, const std::string& from, const std::string& to) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status top = fs::status(from, error);
  if (!fs::exists(top))
    return fail(ErrorCode::kNotFound, from + " is not there", "Name a directory or a file.");
  const auto mode_of = [](const fs::file_status& status) {
    return static_cast<uint32_t>(status.permissions()) & 07777;
  };
  if (fs::is_regular_file(top)) return copy_file(computer, from, to, mode_of(top));
  MEMBRANE_TRY(computer.make_directory(to, 0755));
  uint64_t bytes = 0;
  size_t files = 0;
  fs::recursive_directory_iterator each(from, error);
  for (; !error && each != fs::recursive_directory_iterator(); each.increment(error)) {
    const std::string place = (fs::path(to) / each->path().lexically_relative(from)).string();
    const fs::file_status status = each->symlink_status(error);
    if (error) break;
    if (fs::is_regular_file(status)) bytes += each->file_size(error);
    if (error) break;
    if (++files > kMostCopiedFiles || bytes > kMostCopiedBytes)
      return fail(ErrorCode::kTooLong, from + " has more than is copied into a sandbox: 1 GiB, 200,000 files",
                  "Copy a part of it, or grant the directory.");
    if (fs::is_symlink(status))
      MEMBRANE_TRY(computer.make_link(place, fs::read_symlink(each->path(), error).string()));
    else if (fs::is_directory(status)) MEMBRANE_TRY(computer.make_directory(place, mode_of(status)));
    else if (fs::is_regular_file(status))
      MEMBRANE_TRY(copy_file(computer, each->path(), place, mode_of(status)));
  }
  if (error) return fail(ErrorCode::kUnavailable, from + " cannot be read: " + error.message());
  return {};
}

}  // namespace membrane::agent
