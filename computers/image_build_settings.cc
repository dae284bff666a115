// The instructions of a build that change nothing but what is said of the image.
#include <map>
#include <utility>

#include "computers/image_builder.h"
#include "computers/settings.h"

namespace membrane::computers {

Status ImageBuilder::argument(const linux::DockerInstruction& in) {
  static const std::map<std::string, std::string> kGiven = {
      {"TARGETPLATFORM", "linux/amd64"}, {"TARGETOS", "linux"}, {"TARGETARCH", "amd64"},
      {"BUILDPLATFORM", "linux/amd64"},  {"BUILDOS", "linux"},  {"BUILDARCH", "amd64"}};
  if (state_) tell(in, false);
  MEMBRANE_ASSIGN(const auto pairs, linux::docker_pairs(in, variables(), file_.escape));
  for (const auto& [name, value] : pairs) {
    auto& arguments = state_ ? arguments_ : global_arguments_;
    const auto given = build_.arguments.find(name);
    if (given != build_.arguments.end()) {
      arguments[name] = given->second;
      used_arguments_.insert(name);
    } else if (value) {
      arguments[name] = *value;
    } else if (const auto global = global_arguments_.find(name); global != global_arguments_.end()) {
      arguments[name] = global->second;
    } else if (const auto known = kGiven.find(name); known != kGiven.end()) {
      arguments[name] = known->second;
    }
  }
  return {};
}

Status ImageBuilder::environment(const linux::DockerInstruction& in) {
  tell(in, false);
  MEMBRANE_ASSIGN(const auto pairs, linux::docker_pairs(in, variables(), file_.escape));
  std::vector<std::string> set;
  for (const auto& [name, value] : pairs) set.push_back(name + "=" + value.value_or(""));
  add_environment(state_->config.environment, set);
  return {};
}

Status ImageBuilder::label(const linux::DockerInstruction& in) {
  tell(in, false);
  MEMBRANE_ASSIGN(const auto pairs, linux::docker_pairs(in, variables(), file_.escape));
  for (const auto& [name, value] : pairs) state_->config.labels[name] = value.value_or("");
  return {};
}

Status ImageBuilder::maintainer(const linux::DockerInstruction& in) {
  tell(in, false);
  state_->config.labels["maintainer"] = in.text;
  return {};
}

Status ImageBuilder::user(const linux::DockerInstruction& in) {
  tell(in, false);
  MEMBRANE_ASSIGN(state_->config.user, word(in.text));
  return {};
}

Status ImageBuilder::shell(const linux::DockerInstruction& in) {
  tell(in, false);
  if (in.exec->empty()) return wrong("the shell is empty", "Write SHELL [\"/bin/bash\", \"-c\"].");
  state_->config.shell = *in.exec;
  return {};
}

std::vector<std::string> ImageBuilder::in_shell(const std::string& text) const {
  std::vector<std::string> all = state_->config.shell;
  if (all.empty()) all = {"/bin/sh", "-c"};
  all.push_back(text);
  return all;
}

Status ImageBuilder::entrypoint(const linux::DockerInstruction& in) {
  tell(in, false);
  state_->config.entrypoint = in.exec ? *in.exec : in_shell(in.text);
  if (!has_command_) state_->config.command.clear();
  return {};
}

Status ImageBuilder::command(const linux::DockerInstruction& in) {
  tell(in, false);
  state_->config.command = in.exec ? *in.exec : in_shell(in.text);
  has_command_ = true;
  return {};
}

Status ImageBuilder::expose(const linux::DockerInstruction& in) {
  tell(in, false);
  MEMBRANE_ASSIGN(const auto all, words(in));
  for (const std::string& each : all)
    state_->config.ports.insert(each.find('/') == each.npos ? each + "/tcp" : each);
  return {};
}

}  // namespace membrane::computers
