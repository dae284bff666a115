// Shared by the commands that use a service. Each is in a file for its subject, command_remote_SUBJECT.cc;
// add_remote() of cli.h adds them all.
//
// Include from .cc files only: the JSON library is slow to compile.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "policy/policy.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace membrane::cli {

class RemoteOptions;
using Json = nlohmann::ordered_json;

// The parts of a path below that of a sandbox: {"v1", "sandboxes", ID, "exec"}.
std::vector<std::string> of_sandbox(const std::string& id, std::vector<std::string> rest = {});
// The member of an answer: "", [] and 0 if there is no such text, list or whole number.
std::string text_at(const Json& json, const char* name);
Json list_at(const Json& json, const char* name);
uint64_t number_at(const Json& json, const char* name);

// {"NAME": "VALUE"} of "NAME=VALUE" words. Errors: kInvalidArgument.
Result<Json> pairs_of(const char* option, const std::vector<std::string>& words);

// The settings of a sandbox, for its creation and later changes.
struct SandboxFields {
  std::string ttl, idle_timeout;                           // as in duration.h
  std::vector<std::string> metadata, labels, environment;  // NAME=VALUE, except labels
};
// Puts those that were given into the body of a request. Errors: kInvalidArgument.
Status put_fields(const SandboxFields& fields, Json& body);

// Errors: kDenied for grants that a service never makes.
Status check_for_service(const policy::Policy& policy);
// Of Linux sandboxes: "linux", "linux:IMAGE".
bool is_linux_template(std::string_view name);

// The text at `name` as it is shown in a line: what a program or a client has named makes no line of its own.
std::string line_at(const Json& json, const char* name);
// Columns as wide as needed; the first row contains their headings, and no row is longer. Each row is one line, whatever
// is in it.
std::string table_text(const std::vector<std::vector<std::string>>& rows);

// A request that waits for approval: "http.request POST https://example.org/, 1234 bytes".
std::string request_line(const Json& approval);

// Removes each named object and prints the names of those removed; continues when one cannot be removed. The
// error is the last one: the others are printed.
Result<int> remove_each(const RemoteOptions& options, const std::vector<std::string>& names,
                        const std::function<std::vector<std::string>(const std::string& name)>& path_of);

// The exit code of a command; prints its error.
int finish(const Result<int>& done, bool json = false);

// The sandbox that a command is about.
CLI::Option* add_id(CLI::App& command, std::string& id);

// Each adds its subcommand to `app`, as add_remote() does.
void add_remote_exec(CLI::App& app, int& exit_code);
void add_remote_copy(CLI::App& app, int& exit_code);
void add_remote_patch(CLI::App& app, int& exit_code);  // diff, patch
void add_remote_info(CLI::App& app, int& exit_code);
void add_remote_update(CLI::App& app, int& exit_code);
void add_remote_contexts(CLI::App& app, int& exit_code);   // context, contexts
void add_remote_snapshots(CLI::App& app, int& exit_code);  // snapshots, templates
void add_remote_tokens(CLI::App& app, int& exit_code);     // tokens
void add_remote_execs(CLI::App& app, int& exit_code);      // execs, wait, cancel
void add_remote_logs(CLI::App& app, int& exit_code);

}  // namespace membrane::cli
