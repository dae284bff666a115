#include "computers/build_run.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "computers/build_network.h"
#include "computers/command_run.h"
#include "computers/file_copy.h"
#include "computers/network/gateway.h"
#include "computers/settings.h"
#include "computers/users.h"

namespace membrane::computers {
namespace {

constexpr const char* kSecretDirectory = "/run/secrets/";

std::unexpected<Error> wrong(std::string what, std::string hint = "") {
  return fail(ErrorCode::kInvalidInput, std::move(what), std::move(hint));
}

// -- flags ------------------------------------------------------------------------------------------------------------

using Words = std::map<std::string, std::string>;

// A word without a value is "true".
Words words_of_mount(const std::string& text) {
  Words words;
  for (auto& [name, value] : mount_words(text)) words[name] = std::move(value).value_or("true");
  return words;
}

Result<uint32_t> number_of(const std::string& name, const std::string& text, int base) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc() || end != text.data() + text.size() || (base == 8 && number > 07777))
    return wrong("\"" + text + "\" is not a valid " + name + " of a mount",
                 base == 8 ? "Write it as an octal number: mode=0400." : "Write a number.");
  return number;
}

// Its file name in the directory of secrets is the last part of the id, as in Docker.
std::string usual_path(const std::string& id) {
  return kSecretDirectory + id.substr(id.find_last_of('/') + 1);
}

Result<SecretMount> secret_of(const Words& words) {
  SecretMount secret;
  bool has_path = false;
  for (const auto& [name, value] : words) {
    if (name == "id") secret.id = value;
    else if (name == "target" || name == "dst" || name == "destination") {
      secret.path = value.starts_with('/') ? value : kSecretDirectory + value;
      has_path = true;
    } else if (name == "env") secret.variable = value;
    else if (name == "required") secret.is_required = value == "true" || value == "1";
    else if (name == "mode") {
      MEMBRANE_ASSIGN(secret.mode, number_of(name, value, 8));
    } else if (name == "uid") {
      MEMBRANE_ASSIGN(secret.user, number_of(name, value, 10));
    } else if (name == "gid") {
      MEMBRANE_ASSIGN(secret.group, number_of(name, value, 10));
    } else if (name != "type") {
      return wrong("a secret mount has no option \"" + name + "\"",
                   "The options are id, target, env, required, mode, uid and gid.");
    }
  }
  if (secret.id.empty() && has_path) secret.id = secret.path.substr(secret.path.find_last_of('/') + 1);
  if (secret.id.empty()) return wrong("a secret mount has no id", "Write --mount=type=secret,id=NAME.");
  if (!has_path && secret.variable.empty()) secret.path = usual_path(secret.id);
  return secret;
}

}  // namespace

std::vector<MountWord> mount_words(std::string_view text) {
  std::vector<MountWord> words;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    const size_t equals = std::min(word.find('='), word.size());
    words.push_back({.name = std::string(word.substr(0, equals)), .value = {}});
    if (equals < word.size()) words.back().value = word.substr(equals + 1);
    begin = end + 1;
  }
  return words;
}

Result<RunFlags> read_run_flags(const linux::DockerInstruction& instruction) {
  RunFlags flags;
  for (const auto& [name, value] : instruction.flags) {
    if (name == "network" && (value == "none" || value == "default")) {
      flags.has_no_network = value == "none";
      continue;
    }
    if (name == "mount") {
      const Words words = words_of_mount(value);
      const auto type = words.find("type");
      if (type != words.end() && type->second == "cache") continue;  // an empty one
      if (type != words.end() && type->second == "secret") {
        MEMBRANE_ASSIGN(SecretMount secret, secret_of(words));
        flags.secrets.push_back(std::move(secret));
        continue;
      }
    }
    return fail(ErrorCode::kUnsupported, "--" + name + "=" + value + " is not supported in a build",
                name == "network" ? "Remove it; grant hosts with --allow http:HOST."
                                  : "Remove it; use COPY for files.");
  }
  return flags;
}

// -- the command ------------------------------------------------------------------------------------------------------

namespace {

Status put_secrets(linux::LiveComputer& computer, const RunStep& step) {
  for (const SecretMount& each : step.secrets) {
    const auto value = step.secret_values.find(each.id);
    if (each.path.empty() || value == step.secret_values.end()) continue;
    if (computer.stat(each.path, false))
      return wrong("a secret would be mounted at " + each.path + ", where a file already exists",
                   "Mount it at another target.");
    MEMBRANE_TRY(put_file(computer, each.path, value->second, each.mode,
                          User{.user = each.user, .group = each.group}));
  }
  return {};
}

// The directories that are made for secrets, the lowest first.
std::vector<std::string> made_directories(linux::LiveComputer& computer, const RunStep& step) {
  std::vector<std::string> made;
  for (const SecretMount& each : step.secrets)
    for (size_t slash = each.path.rfind('/'); slash != each.path.npos && slash > 0;
         slash = each.path.rfind('/', slash - 1)) {
      std::string directory = each.path.substr(0, slash);
      if (computer.stat(directory, true)) break;
      if (std::ranges::find(made, directory) == made.end()) made.push_back(std::move(directory));
    }
  std::ranges::sort(made, std::ranges::greater(), &std::string::size);
  return made;
}

// A mounted secret that is gone was moved elsewhere by name, which would leave it in the layer.
Status take_secrets(linux::LiveComputer& computer, const RunStep& step,
                    const std::vector<std::string>& directories) {
  for (const SecretMount& each : step.secrets) {
    if (each.path.empty() || !step.secret_values.contains(each.id)) continue;
    const auto there = computer.stat(each.path, false);
    if (!there || there->links != 1)
      return wrong("the command has moved, linked or removed the secret at " + each.path,
                   "Leave it where it is: it must not end up in the image.");
    MEMBRANE_TRY(computer.remove(each.path, false));
  }
  for (const std::string& directory : directories) static_cast<void>(computer.remove(directory, false));
  return {};
}

void add_secret_variables(const RunStep& step, std::vector<std::string>& environment) {
  for (const SecretMount& each : step.secrets) {
    const auto value = step.secret_values.find(each.id);
    if (each.variable.empty() || value == step.secret_values.end()) continue;
    add_environment(environment, {each.variable + "=" + value->second});
  }
}

// Makes archives and compiled Python reproducible, by the convention of reproducible builds.
void add_epoch(const RunStep& step, std::vector<std::string>& environment) {
  add_defaults(environment, {"SOURCE_DATE_EPOCH=" + std::to_string(step.begins_ms / 1000)});
}

Status status_of(const sandbox::Report& report, const std::vector<sandbox::HostCallRecord>& calls) {
  if (report.outcome == sandbox::Outcome::kOk && report.exit_code.value_or(0) == 0) return {};
  const std::string code = report.outcome == sandbox::Outcome::kOk
                               ? "exit code " + std::to_string(report.exit_code.value_or(0))
                               : std::string(describe(report.outcome));
  const bool is_full =
      std::ranges::any_of(report.limits_reached, [](const auto& reached) { return reached.name == "disk"; });
  std::string why = is_full ? kDiskIsFull : how_to_allow(calls);
  if (report.errors.empty())
    return wrong("the command failed: " + code, why.empty() ? "See its output for the reason." : why);
  return wrong("the command failed: " + code + ": " + report.errors.front().message,
               why.empty() ? report.errors.front().hint : why);
}

struct Attempt {
  RunEnd end;
  Status status;
};

// `looks`: ends when the command asks for anything beyond the sandbox.
Result<Attempt> attempt(const RunStep& step, const StartComputer& start, bool is_deterministic,
                        std::vector<policy::HttpGrant> grants, bool looks) {
  Attempt made;
  MEMBRANE_ASSIGN(const auto gateway, Gateway::create({.grants = std::move(grants),
                                                       .limits = step.limits,
                                                       .secrets = nullptr,
                                                       .resolver = nullptr,
                                                       .budget = nullptr,
                                                       .only_looks = looks}));
  MEMBRANE_ASSIGN(made.end.computer, start(is_deterministic, gateway->socket()));
  gateway->begin();
  linux::LiveComputer& computer = *made.end.computer;
  const std::vector<std::string> directories = made_directories(computer, step);
  MEMBRANE_TRY(put_secrets(computer, step));
  MEMBRANE_ASSIGN(const User user, find_user(step.config.user, computer));
  CommandRun run;
  run.spec.arguments = step.arguments;
  run.spec.environment = step.environment;
  set_home(run.spec.environment, step.config, user);
  if (!is_deterministic) add_epoch(step, run.spec.environment);
  if (!is_deterministic) add_authority_variables(run.spec.environment, step.grants);
  add_secret_variables(step, run.spec.environment);
  run.spec.directory = step.config.directory.empty() ? "/" : step.config.directory;
  run.spec.user = user.user;
  run.spec.group = user.group;
  run.limits = step.limits;
  if (step.on_output)
    run.on_output = run.on_error = [&](std::string_view text) {
      if (!looks || !gateway->was_asked()) step.on_output(text);  // otherwise it starts over
    };
  run.is_cancelled = [&] {
    return (looks && gateway->was_asked()) || (step.is_cancelled && step.is_cancelled());
  };
  sandbox::Report report = run_command(computer, std::move(run));
  gateway->end();
  gateway->tell(report);
  made.end.used_network = gateway->was_asked();
  made.end.calls = std::move(report.host_calls);
  made.end.unlisted_calls = report.host_calls_dropped;
  made.status = status_of(report, made.end.calls);
  if (made.status) MEMBRANE_TRY(take_secrets(computer, step, directories));
  return made;
}

}  // namespace

Result<RunEnd> carry_out_run(const RunStep& step, const StartComputer& start) {
  const bool has_grants = !step.grants.empty();
  {
    MEMBRANE_ASSIGN(Attempt alone, attempt(step, start, true, loopback_grants(step.grants), has_grants));
    const bool is_cancelled = step.is_cancelled && step.is_cancelled();
    if (!has_grants || !alone.end.used_network || is_cancelled) {
      MEMBRANE_TRY(alone.status);
      return std::move(alone.end);
    }
  }
  if (step.on_output) step.on_output("(it uses the network; starting it again with network access)\n");
  MEMBRANE_ASSIGN(Attempt granted, attempt(step, start, false, step.grants, false));
  MEMBRANE_TRY(granted.status);
  MEMBRANE_TRY(granted.end.computer->clamp_times(step.begins_ms));
  granted.end.used_network = true;
  return std::move(granted.end);
}

}  // namespace membrane::computers
