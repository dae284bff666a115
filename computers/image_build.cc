#include "computers/image_build.h"

#include <map>
#include <utility>

#include "computers/image_builder.h"
#include "computers/settings.h"
#include "linux/image/layer.h"

namespace membrane::computers {

Result<BuiltImage> ImageBuilder::run() {
  MEMBRANE_ASSIGN(file_, linux::parse_dockerfile(build_.dockerfile));
  size_t at = 0;
  for (; file_.instructions[at].name != "FROM"; ++at) MEMBRANE_TRY(carry_out_at_line(file_.instructions[at]));
  MEMBRANE_ASSIGN(const auto plans, plan(at));
  for (const StagePlan& each : plans)
    if (each.is_needed) steps_ += each.end - each.begin;
  for (const StagePlan& each : plans) {
    if (!each.is_needed) {
      leave_out(each);
      continue;
    }
    for (size_t i = each.begin; i < each.end; ++i) MEMBRANE_TRY(carry_out_at_line(file_.instructions[i]));
  }
  for (const auto& [name, value] : build_.arguments)
    if (!used_arguments_.contains(name) && build_.on_warning)
      build_.on_warning("no ARG of the Dockerfile declares the build argument " + name);
  return finish();
}

Status ImageBuilder::carry_out_at_line(const linux::DockerInstruction& in) {
  Status done = carry_out(in);
  if (!done) return std::unexpected(at_line(in, std::move(done.error())));
  return {};
}

Status ImageBuilder::carry_out(const linux::DockerInstruction& in) {
  using Act = Status (ImageBuilder::*)(const linux::DockerInstruction&);
  static const std::map<std::string_view, Act> kActs = {{"FROM", &ImageBuilder::from},
                                                        {"ARG", &ImageBuilder::argument},
                                                        {"ENV", &ImageBuilder::environment},
                                                        {"LABEL", &ImageBuilder::label},
                                                        {"RUN", &ImageBuilder::run_command_of},
                                                        {"COPY", &ImageBuilder::copy},
                                                        {"ADD", &ImageBuilder::copy},
                                                        {"WORKDIR", &ImageBuilder::directory},
                                                        {"USER", &ImageBuilder::user},
                                                        {"SHELL", &ImageBuilder::shell},
                                                        {"ENTRYPOINT", &ImageBuilder::entrypoint},
                                                        {"CMD", &ImageBuilder::command},
                                                        {"EXPOSE", &ImageBuilder::expose},
                                                        {"MAINTAINER", &ImageBuilder::maintainer}};
  const auto act = kActs.find(in.name);
  if (in.name != "ARG" || state_) ++step_;
  if (act != kActs.end()) return (this->*act->second)(in);
  if (in.name == "ONBUILD")
    return unsupported("it is not supported here", "Write the instruction where the image is used.");
  tell(in, false);
  if (build_.on_warning)
    build_.on_warning("line " + std::to_string(in.line) + ": " + in.name +
                      " has no effect in a sandbox and is ignored");
  return {};
}

Error ImageBuilder::at_line(const linux::DockerInstruction& instruction, Error error) {
  error.message = "line " + std::to_string(instruction.line) + " of the Dockerfile, " + instruction.name +
                  ": " + error.message;
  return error;
}

std::string ImageBuilder::text_of(const linux::DockerInstruction& in) {
  std::string text;
  for (const auto& [name, value] : in.flags) text += "--" + name + (value.empty() ? "" : "=" + value) + " ";
  text += in.text;
  if (text.size() > 100) text = text.substr(0, 100) + "…";
  return in.name + " " + text;
}

std::string ImageBuilder::flag_of(const linux::DockerInstruction& instruction, std::string_view name) {
  for (const auto& [flag, value] : instruction.flags)
    if (flag == name) return value;
  return "";
}

void ImageBuilder::tell(const linux::DockerInstruction& in, bool is_cached) const {
  if (build_.on_step)
    build_.on_step("step " + std::to_string(step_) + "/" + std::to_string(steps_) + ": " + text_of(in) +
                   (is_cached ? " (cached)" : ""));
}

Result<BuiltImage> ImageBuilder::finish() {
  const std::string config = linux::image_config_text(state_->config);
  MEMBRANE_ASSIGN(const std::string key, KeyText().add(state_->key).add("image").add(config).digest());
  std::optional<std::string> path = build_.uses_cache ? cache_.image(key) : std::nullopt;
  if (!path) {
    MEMBRANE_ASSIGN(const auto computer, start(*state_, key));
    MEMBRANE_ASSIGN(LayerCache::NewEntry entry, cache_.add_image(key));
    MEMBRANE_TRY(computer->save_image(entry.number(), config));
    MEMBRANE_ASSIGN(path, entry.keep());
  }
  MEMBRANE_TRY(cache_.name_image(key, build_.name, state_->layers));
  MEMBRANE_ASSIGN(built_.image, linux::find_image(build_.name));
  MEMBRANE_ASSIGN(const auto image, linux::Layer::open(*path));
  built_.digest = image->digest();
  return built_;
}

// -- variables ----------------------------------------------------------------------------------------------------

std::optional<std::string_view> ImageBuilder::variable(std::string_view name) const {
  if (state_)
    for (const std::string& each : state_->config.environment)
      if (each.starts_with(name) && each.size() > name.size() && each[name.size()] == '=')
        return std::string_view(each).substr(name.size() + 1);
  const auto& arguments = state_ ? arguments_ : global_arguments_;
  const auto found = arguments.find(std::string(name));
  return found == arguments.end() ? std::nullopt : std::optional<std::string_view>(found->second);
}

Result<std::vector<std::string>> ImageBuilder::words(const linux::DockerInstruction& in) const {
  if (!in.exec) return linux::expand_docker_words(in.text, variables(), file_.escape);
  std::vector<std::string> all;
  for (const std::string& each : *in.exec) {
    MEMBRANE_ASSIGN(std::string expanded, word(each));
    all.push_back(std::move(expanded));
  }
  return all;
}

// -- from outside -------------------------------------------------------------------------------------------------

policy::Limits usual_build_limits() {
  constexpr uint64_t kDiskBytes = 4ull << 30;  // builds unpack packages
  policy::Limits limits = usual_limits();
  limits.disk_bytes = kDiskBytes;
  return limits;
}

Result<BuiltImage> build_image(const ImageBuild& build, linux::ComputerSource& source) {
  MEMBRANE_ASSIGN(LayerCache cache, LayerCache::open());
  MEMBRANE_TRY(linux::path_of_new_image(build.name));
  return ImageBuilder(build, source, std::move(cache)).run();
}

Result<BuiltImage> build_image(const ImageBuild& build) {
  MEMBRANE_ASSIGN(const auto source, linux::ComputerSource::create(1));
  source->make_ready();
  return build_image(build, *source);
}

}  // namespace membrane::computers
