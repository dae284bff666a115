// RUN of a build: what its command gets, its keys in the cache, and what is noted of its network.
#include <algorithm>
#include <utility>

#include "computers/build_network.h"
#include "computers/image_builder.h"
#include "computers/settings.h"

namespace membrane::computers {
namespace {

// Its text with its here-documents, as a shell reads them. If there is only a document, that is the script.
std::string script_of(const linux::DockerInstruction& in) {
  if (in.documents.empty()) return in.text;
  const bool is_alone = in.documents.size() == 1 && in.text.find(' ') == in.text.npos;
  if (is_alone) return in.documents.front().text;
  std::string script = in.text + "\n";
  for (const linux::HereDocument& each : in.documents) script += each.text + each.name + "\n";
  return script;
}

}  // namespace

Status ImageBuilder::run_command_of(const linux::DockerInstruction& in) {
  MEMBRANE_ASSIGN(const RunStep step, step_of(in));
  MEMBRANE_ASSIGN(const RunKeys keys, keys_of(step));
  if (take_cached(in, keys.alone)) return {};
  const bool is_granted = !step.grants.empty();
  NetworkStep network = {.line = in.line, .instruction = text_of(in), .is_cached = true};
  if (const auto latest = cache_.latest(keys.with_network); latest && take_cached(in, *latest)) {
    if (is_granted) built_.network.push_back(std::move(network));
    return {};
  }
  tell(in, false);
  auto done = carry_out_run(step, [&](bool is_deterministic, int socket) {
    return start(*state_, keys.alone, is_deterministic, socket);
  });
  if (!done) return std::unexpected(with_disk_hint(std::move(done.error())));
  if (const std::string fix = how_to_allow(done->calls); !fix.empty() && build_.on_warning)
    build_.on_warning("line " + std::to_string(in.line) + ": the command continued after a refusal. " + fix);
  if (done->used_network && is_granted) {
    network.is_cached = false;
    network.hosts = contacted_hosts(done->calls);
    network.unlisted_calls = done->unlisted_calls;
    built_.network.push_back(std::move(network));
  }
  return done->used_network ? keep_latest(*done->computer, keys.with_network)
                            : keep_layer(*done->computer, keys.alone);
}

Result<RunStep> ImageBuilder::step_of(const linux::DockerInstruction& in) const {
  MEMBRANE_ASSIGN(const RunFlags flags, read_run_flags(in));
  MEMBRANE_TRY(check_secrets(in, flags));
  RunStep step;
  step.arguments = in.exec ? *in.exec : in_shell(script_of(in));
  if (step.arguments.empty() || step.arguments.front().empty()) return wrong("there is no command");
  step.environment = environment_of_run();
  step.config = state_->config;
  step.limits = build_.limits;
  if (!flags.has_no_network) step.grants = build_.grants;
  step.secrets = flags.secrets;
  step.secret_values = build_.secrets;
  step.begins_ms = begin_of_next(*state_);
  step.on_output = build_.on_output;
  step.is_cancelled = build_.is_cancelled;
  return step;
}

Status ImageBuilder::check_secrets(const linux::DockerInstruction& in, const RunFlags& flags) const {
  for (const SecretMount& each : flags.secrets) {
    if (build_.secrets.contains(each.id)) continue;
    const std::string what = "the secret " + each.id + " was not passed",
                      fix = "Pass it with --secret id=" + each.id + ",src=FILE.";
    if (each.is_required) return wrong(what, fix);
    if (build_.on_warning) build_.on_warning("line " + std::to_string(in.line) + ": " + what + ". " + fix);
  }
  return {};
}

std::vector<std::string> ImageBuilder::environment_of_run() const {
  std::vector<std::string> environment = environment_of(state_->config);
  std::vector<std::string> given;
  for (const auto& [name, value] : arguments_) given.push_back(name + "=" + value);
  std::erase_if(given, [&](const std::string& each) {
    const std::string name = each.substr(0, each.find('=') + 1);
    return std::ranges::any_of(state_->config.environment,
                               [&](const std::string& set) { return set.starts_with(name); });
  });
  add_environment(environment, given);
  return environment;
}

Result<ImageBuilder::RunKeys> ImageBuilder::keys_of(const RunStep& step) const {
  KeyText text;
  text.add(state_->key)
      .add("RUN")
      .add(step.arguments)
      .add(step.environment)
      .add(working_directory())
      .add(state_->config.user)
      .add(words_of(loopback_grants(step.grants)));
  for (const SecretMount& each : step.secrets)
    text.add(each.id)
        .add(each.path)
        .add(each.variable)
        .add({std::to_string(each.mode), std::to_string(each.user), std::to_string(each.group)})
        .add(build_.secrets.contains(each.id) ? "given" : "");
  RunKeys keys;
  MEMBRANE_ASSIGN(keys.alone, text.digest());
  MEMBRANE_ASSIGN(keys.with_network,
                  KeyText().add(keys.alone).add("network").add(words_of(step.grants)).digest());
  return keys;
}

}  // namespace membrane::computers
