// The command line. Each command is one file, command_NAME.cc, that adds itself to the parser; app.cc lists
// them.
//
// Exit codes of Membrane's own: 0 fine; 1 the guest's own failure, or a replay that differs; 2 a denied or invalid
// request, or wrong usage; 3 a failure of Membrane itself; 4 frozen.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdio>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "engine/code/tier.h"
#include "policy/policy.h"
#include "sandbox/report/report.h"
#include "sandbox/session/template.h"
#include "worker/guests.h"

namespace membrane::cli {

inline constexpr int kExitOk = 0;
inline constexpr int kExitGuest = 1;
inline constexpr int kExitRequest = 2;
inline constexpr int kExitMembrane = 3;
// No exit code: after Ctrl-C the command ends by SIGINT, which also ends a shell's loop.
inline constexpr int kEndBySignal = 256;

// Each adds its subcommand to `app`; running the subcommand stores its result in `exit_code`.
void add_run(CLI::App& app, int& exit_code);
void add_thaw(CLI::App& app, int& exit_code);
void add_repl(CLI::App& app, int& exit_code);
void add_languages(CLI::App& app, int& exit_code);
void add_check(CLI::App& app, int& exit_code);
void add_agent(CLI::App& app, int& exit_code);
void add_mcp(CLI::App& app, int& exit_code);
void add_policy(CLI::App& app, int& exit_code);
void add_policy_test(CLI::App& policy, int& exit_code);  // membrane policy test
void add_verify(CLI::App& app, int& exit_code);
void add_replay(CLI::App& app, int& exit_code);
void add_keys(CLI::App& app, int& exit_code);
void add_capabilities(CLI::App& app, int& exit_code);
void add_doctor(CLI::App& app, int& exit_code);
void add_spectest(CLI::App& app, int& exit_code);
void add_serve(CLI::App& app, int& exit_code);
// The commands that use a service: create, exec, cp, … (command_remote*.cc).
void add_remote(CLI::App& app, int& exit_code);
void add_image(CLI::App& app, int& exit_code);
void add_shell(CLI::App& app, int& exit_code);
void add_audit(CLI::App& app, int& exit_code);
void add_completion(CLI::App& app);

// The worker in which run and thaw put their program, or the zygote of those of repl and agent. It is started
// before everything else: memory then holds nothing that a guest should not come near, and its walls are
// raised while the command line is read.
enum class EarlyProcess : uint8_t { kWorker, kZygote };
void start_early(EarlyProcess what);
// Ends it if nothing took it, and waits for the ends of all workers. Call it last.
void end_early();
// Call it once: returns the process that was started early, or starts one. Errors: those of
// worker::Worker::start().
Result<std::shared_ptr<worker::Worker>> take_worker();
Result<worker::Guests> take_guests(bool in_process);
// --in-process.
void add_in_process(CLI::App& command, bool& in_process);

// Builds the parser with every command and its action. If `first_word` is "run", only that command: the
// others would take a fifth of a millisecond of its start.
std::unique_ptr<CLI::App> make_app(int& exit_code, std::string_view first_word = {});

// An option that may be given several times, with one value each time.
CLI::Option* add_repeatable(CLI::App& command, const std::string& name, std::vector<std::string>& values,
                            const std::string& help);

// -- options that several commands have ----------------------------------------------------

// --policy FILE, --allow GRANT, --dir DIR, and a flag for each limit; the flags are applied on top of the
// file.
class PolicyOptions {
 public:
  // A service grants no files of its machine: its commands leave these options out of the help, and explain
  // the alternative.
  enum class Of : uint8_t { kThisMachine, kService };
  // The kinds of sandboxes that the command creates: it has the limits that apply to them.
  enum class Kinds : uint8_t { kWasm, kLinux, kBoth };
  void add_to(CLI::App& command, Of of = Of::kThisMachine, Kinds kinds = Kinds::kWasm);
  // `unless_given`: the limits that neither the file nor a flag names.
  [[nodiscard]] Result<policy::Policy> policy(const policy::Limits& unless_given = {}) const;
  // Applies the options to the policy `has`: a file or a grant replaces the whole policy, except limits that
  // nothing names; limits alone leave the grants as they are.
  [[nodiscard]] Result<policy::Policy> changed(const policy::Policy& has) const;
  [[nodiscard]] bool is_empty() const;
  // How much of a program has to be read to know that it is too long: `usual` bytes, or more where --module or a
  // policy's file may allow more, up to `most`.
  [[nodiscard]] uint64_t most_program_bytes(uint64_t usual, uint64_t most) const;

  std::string file;  // of --policy

 private:
  struct Limit {
    std::string name;
    std::string value;
  };
  [[nodiscard]] bool has_grants() const { return !file.empty() || !allow_.empty() || !directories_.empty(); }
  [[nodiscard]] Status set_limits(policy::Limits& limits) const;
  void add_limits_of_wasm(CLI::App& command, const char* group);
  void add_limits_of_linux(CLI::App& command, const char* group);
  void add_limit(CLI::App& command, const char* group, const char* name, const char* type, const char* help);

  std::vector<std::string> allow_, directories_;
  std::vector<std::unique_ptr<Limit>> limits_;  // the parser stores their addresses
};

// Whether what the grants name exists: files, directories and secrets. Errors: those of check_granted_files() and
// check_granted_secrets().
Status check_granted(const policy::Policy& policy);

// -- input and output ------------------------------------------------------------------------

// The file's bytes; "-" is standard input. A file that does not begin with `magic` is not read to its end: the
// reader of its format refuses it. Errors: kNotFound, kUnavailable, kExhausted over `max_bytes`.
Result<std::string> read_input(const std::string& path, uint64_t max_bytes, std::string_view magic = {});
// The first bytes of a regular file, padded with zeros. Of any other it is "": reading would take them away from the
// file's next reader.
std::string head_of(const std::string& path, size_t bytes);
// Whether a file is a program of the host's Linux.
bool is_elf(const std::string& path);
// The language of a program: the one that `word` (of --lang) names, or that its file name and text suggest;
// "" is the name of a text from the command line. A guess is reported on standard error. Errors:
// kInvalidArgument when there is none.
Result<std::string> program_language(const std::string& word, const std::string& file,
                                     std::string_view source);
// The exit code of a command that ran one program. A program that exits by itself determines it.
int exit_code_of(const sandbox::Report& report);
// For --env: NAME=VALUE, or NAME for the host's value. Errors: kInvalidArgument.
Result<std::vector<std::pair<std::string, std::string>>> environment_of(
    const std::vector<std::string>& written);
// The tier that --tier names. Errors: kInvalidArgument.
Result<engine::Tier> tier_of(const std::string& name);
Status write_output(const std::string& path, std::string_view text);

// All output of a command goes through this: byte for byte into a pipe or a file; on a terminal as in
// printable() (base/terminal.h), so that no text, of any origin, can control the terminal.
void print(std::FILE* to, std::string_view text);
inline void print(std::string_view text) { print(stdout, text); }
// For text with our own colours or cursor movements: foreign parts must already be printable.
void print_styled(std::FILE* to, std::string_view text);
// Of a file or a memory, for a table: "207 MiB", rounded up.
std::string size_text(uint64_t bytes);
// A JSON text and a line's end. On a terminal, the control characters that JSON leaves in strings are escaped.
void print_json(std::string json);
// Indented on a terminal, otherwise in one line.
void print_json(const nlohmann::ordered_json& json);

// The reader of a command's error.
enum class Reader : uint8_t {
  kPerson,  // "membrane: message", and the hint on a line of its own, on standard error
  kJson,    // {"outcome": "invalid", "error": {"code", "message", "hint"}}, on standard output
  kReport,  // a whole report (docs/report.schema.json), for `run --json`
};
// Returns the exit code.
int complain(const Error& error, Reader reader = Reader::kPerson);

// Where the command keeps warm images, and whom it tells when it makes one.
sandbox::TemplateOptions template_options(engine::Tier tier);

// Reports the steps of long work on standard error, in one line that is replaced; null if that is not a
// terminal.
std::function<void(std::string_view step)> progress_line();

bool is_terminal(std::FILE* file);
// Whether both go to one place, as on a terminal and with 2>&1.
bool same_file(std::FILE* a, std::FILE* b);
// Colours only on a terminal, and never with NO_COLOR set.
bool use_colour(std::FILE* to);

}  // namespace membrane::cli
