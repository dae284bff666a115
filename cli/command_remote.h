// What the commands share that speak to a service. Each is in a file by its subject, command_remote_SUBJECT.cc; add_remote()
// of cli.h adds them all.
//
// Include from .cc files only: the JSON library is slow to compile.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace membrane::cli {

using Json = nlohmann::ordered_json;

// The parts of a path below that of a sandbox: {"v1", "sandboxes", ID, "exec"}.
std::vector<std::string> of_sandbox(const std::string& id, std::vector<std::string> rest = {});
// "" where there is no such text.
std::string text_at(const Json& json, const char* name);

// Of what people write, as 500ms, 10m, 1h. Errors: kInvalidArgument.
Result<uint64_t> duration_ms(const std::string& text);
// Rounded up.
Result<uint64_t> whole_seconds(const std::string& text);

// {"NAME": "VALUE"} of "NAME=VALUE" words. Errors: kInvalidArgument.
Result<Json> pairs_of(const char* option, const std::vector<std::string>& words);

// The exit code of a command, which complains of its error.
int finish(const Result<int>& done, bool json = false);

// The sandbox that a command is about.
CLI::Option* add_id(CLI::App& command, std::string& id);

// Each adds its subcommand to `app`, as add_remote() does.
void add_remote_exec(CLI::App& app, int& exit_code);
void add_remote_copy(CLI::App& app, int& exit_code);
void add_remote_logs(CLI::App& app, int& exit_code);

}  // namespace membrane::cli
