#include "computers/image_build.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <optional>
#include <ranges>
#include <set>
#include <utility>
#include <vector>

#include "base/sha256.h"
#include "computers/build_run.h"
#include "computers/file_copy.h"
#include "computers/layer_cache.h"
#include "computers/settings.h"
#include "computers/source_files.h"
#include "computers/url_fetch.h"
#include "computers/users.h"
#include "linux/image/blob.h"
#include "linux/image/dockerfile.h"
#include "linux/image/layer.h"

namespace membrane::computers {
namespace {

constexpr std::string_view kVersion = "membrane build 2";
constexpr int64_t kFirstMs = 946'684'800'000, kLastMs = 4'102'444'800'000;  // 2000 and 2100
constexpr int64_t kBetweenLayersMs = 3'600'000;

std::unexpected<Error> wrong(std::string what, std::string hint = "") {
  return fail(ErrorCode::kInvalidInput, std::move(what), std::move(hint));
}
std::unexpected<Error> unsupported(std::string what, std::string hint) {
  return fail(ErrorCode::kUnsupported, std::move(what), std::move(hint));
}

// The image at the bottom of a stage, and what its instructions have made so far.
struct State {
  std::string image_path;    // "" for scratch
  std::string image_digest;  // "" for scratch
  int64_t begin_ms = kFirstMs;
  std::string key;                         // of the last layer; of the image if there is none
  std::shared_ptr<linux::HostFile> layer;  // null if there is none
  std::vector<std::string> layers;         // keys
  linux::ImageConfig config;
};

// Texts with their lengths, so that different lists never look the same.
class KeyText {
 public:
  KeyText& add(std::string_view text) {
    text_ += std::to_string(text.size()) + ":";
    text_ += text;
    return *this;
  }
  KeyText& add(const std::vector<std::string>& all) {
    add(std::to_string(all.size()));
    for (const std::string& each : all) add(each);
    return *this;
  }
  [[nodiscard]] Result<std::string> digest() const { return sha256_hex(text_); }

 private:
  std::string text_;
};

// The modification time of the newest file of an image.
int64_t newest_ms(const linux::Layer& image) {
  int64_t newest = kFirstMs;
  for (uint32_t number = 0; number < image.inode_count(); ++number)
    if (const auto inode = image.inode(number); inode && inode->modified_s <= kLastMs / 1000)
      newest = std::max(newest, (inode->modified_s + 1) * 1000);
  return newest;
}

std::string flag_of(const linux::DockerInstruction& instruction, std::string_view name) {
  for (const auto& [flag, value] : instruction.flags)
    if (flag == name) return value;
  return "";
}

std::string absolute(const std::string& directory, const std::string& path) {
  if (path.starts_with('/')) return path;
  return (directory.ends_with('/') ? directory : directory + "/") + path;
}

// Without "." and "..", but with a trailing '/', if any: a directory.
std::string plain(const std::string& path) {
  std::vector<std::string> parts;
  for (const auto part : std::views::split(path, '/')) {
    const std::string_view each(part.begin(), part.end());
    if (each == ".." && !parts.empty()) parts.pop_back();
    else if (!each.empty() && each != "." && each != "..") parts.emplace_back(each);
  }
  std::string text;
  for (const std::string& part : parts) text += "/" + part;
  const bool is_directory = path.ends_with('/') || path.ends_with("/.");
  return text.empty() ? "/" : text + (is_directory ? "/" : "");
}

class Building {
 public:
  Building(const ImageBuild& build, linux::ComputerSource& source, LayerCache cache)
      : build_(build), source_(source), cache_(std::move(cache)) {}

  Result<BuiltImage> run() {
    MEMBRANE_ASSIGN(file_, linux::parse_dockerfile(build_.dockerfile));
    size_t at = 0;
    for (; file_.instructions[at].name != "FROM"; ++at)
      MEMBRANE_TRY(carry_out_at_line(file_.instructions[at]));
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

 private:
  // -- which stages there are

  struct StagePlan {
    std::string name;
    size_t begin = 0, end = 0;  // of the instructions
    bool is_needed = false;
  };
  struct StageNames {
    std::string base, name;  // FROM base AS name
  };

  Result<StageNames> names_of(const linux::DockerInstruction& in) const {
    MEMBRANE_ASSIGN(const auto all, words(in));
    const bool is_named = all.size() == 3 && (all[1] == "AS" || all[1] == "as" || all[1] == "As");
    if (all.size() != 1 && !is_named) return wrong("this is not \"FROM image\" or \"FROM image AS name\"");
    return StageNames{.base = all.front(), .name = is_named ? all[2] : ""};
  }

  // The stages up to the one to build; the stages that it copies from are needed, and those that these copy
  // from.
  Result<std::vector<StagePlan>> plan(size_t first) const {
    std::vector<StagePlan> plans;
    bool has_target = build_.target.empty();
    for (size_t i = first; i < file_.instructions.size(); ++i) {
      const linux::DockerInstruction& in = file_.instructions[i];
      if (in.name == "FROM") {
        if (!build_.target.empty() && has_target) break;
        auto names = names_of(in);
        if (!names) return std::unexpected(at_line(in, std::move(names.error())));
        has_target = has_target || names->name == build_.target;
        plans.push_back({.name = std::move(names->name), .begin = i, .end = i});
      }
      plans.back().end = i + 1;
    }
    if (!has_target)
      return fail(ErrorCode::kInvalidArgument, "the Dockerfile has no stage \"" + build_.target + '"',
                  "Name a stage with FROM image AS name.");
    plans.back().is_needed = true;
    for (size_t at = plans.size(); at-- > 0;)
      if (plans[at].is_needed) mark_needed(plans, at);
    return plans;
  }

  // The earlier stages that this stage copies from. A name with variables, which only its ARGs know, may be
  // any of them.
  void mark_needed(std::vector<StagePlan>& plans, size_t stage) const {
    const auto mark = [&](const std::string& name, bool is_any) {
      for (size_t i = 0; i < stage; ++i) {
        if (!is_any && plans[i].name != name && std::to_string(i) != name) continue;
        plans[i].is_needed = true;
        if (!is_any) return;
      }
    };
    for (size_t i = plans[stage].begin; i < plans[stage].end; ++i) {
      const linux::DockerInstruction& in = file_.instructions[i];
      if (in.name == "FROM") mark(names_of(in).value_or(StageNames()).base, false);
      const std::string from = flag_of(in, "from");
      if (!from.empty()) mark(from, from.find('$') != from.npos);
    }
  }

  void leave_out(const StagePlan& stage) {
    put_away();
    stages_.emplace_back(stage.name, nullptr);
    for (size_t i = stage.begin; i < stage.end; ++i) {
      if (file_.instructions[i].name != "ARG") continue;
      const auto pairs = linux::docker_pairs(file_.instructions[i], variables(), file_.escape);
      if (!pairs) continue;
      for (const auto& pair : *pairs) used_arguments_.insert(pair.name);
    }
  }

  // The stage has ended; the variables are the global ones again.
  void put_away() {
    if (state_) stages_.back().second = std::make_unique<State>(std::move(*state_));
    state_.reset();
  }

  // -- instructions

  Status carry_out_at_line(const linux::DockerInstruction& in) {
    Status done = carry_out(in);
    if (!done) return std::unexpected(at_line(in, std::move(done.error())));
    return {};
  }

  static Error at_line(const linux::DockerInstruction& instruction, Error error) {
    error.message = "line " + std::to_string(instruction.line) + " of the Dockerfile, " + instruction.name +
                    ": " + error.message;
    return error;
  }

  Status carry_out(const linux::DockerInstruction& in) {
    using Act = Status (Building::*)(const linux::DockerInstruction&);
    static const std::map<std::string_view, Act> kActs = {
        {"FROM", &Building::from},     {"ARG", &Building::argument},          {"ENV", &Building::environment},
        {"LABEL", &Building::label},   {"RUN", &Building::run_command_of},    {"COPY", &Building::copy},
        {"ADD", &Building::copy},      {"WORKDIR", &Building::directory},     {"USER", &Building::user},
        {"SHELL", &Building::shell},   {"ENTRYPOINT", &Building::entrypoint}, {"CMD", &Building::command},
        {"EXPOSE", &Building::expose}, {"MAINTAINER", &Building::maintainer}};
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

  static std::string text_of(const linux::DockerInstruction& in) {
    std::string text;
    for (const auto& [name, value] : in.flags) text += "--" + name + (value.empty() ? "" : "=" + value) + " ";
    text += in.text;
    if (text.size() > 100) text = text.substr(0, 100) + "…";
    return in.name + " " + text;
  }

  void tell(const linux::DockerInstruction& in, bool is_cached) const {
    if (build_.on_step)
      build_.on_step("step " + std::to_string(step_) + "/" + std::to_string(steps_) + ": " + text_of(in) +
                     (is_cached ? " (cached)" : ""));
  }

  // -- variables

  [[nodiscard]] std::optional<std::string_view> variable(std::string_view name) const {
    if (state_)
      for (const std::string& each : state_->config.environment)
        if (each.starts_with(name) && each.size() > name.size() && each[name.size()] == '=')
          return std::string_view(each).substr(name.size() + 1);
    const auto& arguments = state_ ? arguments_ : global_arguments_;
    const auto found = arguments.find(std::string(name));
    return found == arguments.end() ? std::nullopt : std::optional<std::string_view>(found->second);
  }
  [[nodiscard]] linux::DockerVariables variables() const {
    return [this](std::string_view name) { return variable(name); };
  }
  [[nodiscard]] Result<std::string> word(const std::string& text) const {
    return linux::expand_docker_word(text, variables(), file_.escape);
  }
  [[nodiscard]] Result<std::vector<std::string>> words(const linux::DockerInstruction& in) const {
    if (!in.exec) return linux::expand_docker_words(in.text, variables(), file_.escape);
    std::vector<std::string> all;
    for (const std::string& each : *in.exec) {
      MEMBRANE_ASSIGN(std::string expanded, word(each));
      all.push_back(std::move(expanded));
    }
    return all;
  }

  // -- instructions that change nothing but what is said of the image

  Status argument(const linux::DockerInstruction& in) {
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

  Status environment(const linux::DockerInstruction& in) {
    tell(in, false);
    MEMBRANE_ASSIGN(const auto pairs, linux::docker_pairs(in, variables(), file_.escape));
    std::vector<std::string> set;
    for (const auto& [name, value] : pairs) set.push_back(name + "=" + value.value_or(""));
    add_environment(state_->config.environment, set);
    return {};
  }

  Status label(const linux::DockerInstruction& in) {
    tell(in, false);
    MEMBRANE_ASSIGN(const auto pairs, linux::docker_pairs(in, variables(), file_.escape));
    for (const auto& [name, value] : pairs) state_->config.labels[name] = value.value_or("");
    return {};
  }

  Status maintainer(const linux::DockerInstruction& in) {
    tell(in, false);
    state_->config.labels["maintainer"] = in.text;
    return {};
  }

  Status user(const linux::DockerInstruction& in) {
    tell(in, false);
    MEMBRANE_ASSIGN(state_->config.user, word(in.text));
    return {};
  }

  Status shell(const linux::DockerInstruction& in) {
    tell(in, false);
    if (in.exec->empty()) return wrong("the shell is empty", "Write SHELL [\"/bin/bash\", \"-c\"].");
    state_->config.shell = *in.exec;
    return {};
  }

  [[nodiscard]] std::vector<std::string> in_shell(const std::string& text) const {
    std::vector<std::string> all = state_->config.shell;
    if (all.empty()) all = {"/bin/sh", "-c"};
    all.push_back(text);
    return all;
  }

  // An entrypoint discards the command of the base image.
  Status entrypoint(const linux::DockerInstruction& in) {
    tell(in, false);
    state_->config.entrypoint = in.exec ? *in.exec : in_shell(in.text);
    if (!has_command_) state_->config.command.clear();
    return {};
  }

  Status command(const linux::DockerInstruction& in) {
    tell(in, false);
    state_->config.command = in.exec ? *in.exec : in_shell(in.text);
    has_command_ = true;
    return {};
  }

  Status expose(const linux::DockerInstruction& in) {
    tell(in, false);
    MEMBRANE_ASSIGN(const auto all, words(in));
    for (const std::string& each : all)
      state_->config.ports.insert(each.find('/') == each.npos ? each + "/tcp" : each);
    return {};
  }

  // -- stages

  Status from(const linux::DockerInstruction& in) {
    tell(in, false);
    put_away();
    MEMBRANE_ASSIGN(const StageNames names, names_of(in));
    MEMBRANE_ASSIGN(const std::string platform, word(flag_of(in, "platform")));
    if (!platform.empty() && platform != "linux/amd64" && platform != "linux/x86_64")
      return unsupported("there are no sandboxes for " + platform,
                         "Remove --platform; programs are for linux/amd64.");
    MEMBRANE_ASSIGN(State begun, begin(names.base));
    state_ = std::move(begun);
    arguments_.clear();
    has_command_ = false;
    stages_.emplace_back(names.name, nullptr);
    return {};
  }

  // Only images of the user's own store, whose digests are known. A path in a Dockerfile could name anybody's
  // file, which could pass for another image.
  static Result<linux::StoredImage> image_named(const std::string& name) {
    if (name.find('/') != name.npos)
      return wrong('"' + name + "\" is not a name of an image",
                   "FROM takes the name of an image; `membrane image import FILE --tag NAME` imports one.");
    return linux::find_image(name);
  }

  Result<State> begin(const std::string& name) {
    if (const State* const stage = find_stage(name)) return *stage;
    State state;
    if (name == "scratch") {
      MEMBRANE_ASSIGN(state.key, KeyText().add(kVersion).add("scratch").digest());
      return state;
    }
    MEMBRANE_ASSIGN(const linux::StoredImage image, image_named(name));
    MEMBRANE_ASSIGN(const auto layer, linux::Layer::open(image.path));
    state.image_path = image.path;
    state.image_digest = layer->digest();
    state.begin_ms = newest_ms(*layer);
    state.config = image.config;
    MEMBRANE_ASSIGN(state.key, KeyText().add(kVersion).add(state.image_digest).digest());
    return state;
  }

  [[nodiscard]] const State* find_stage(const std::string& name) const {
    for (size_t i = 0; i < stages_.size(); ++i)
      if (stages_[i].second && (stages_[i].first == name || std::to_string(i) == name))
        return stages_[i].second.get();
    return nullptr;
  }

  // -- instructions that change files

  Result<std::unique_ptr<linux::LiveComputer>> start(const State& state, const std::string& key,
                                                     bool is_deterministic = true, int network = -1) {
    linux::LiveSpec spec;
    spec.image = state.image_path;
    if (state.layer) spec.kept = state.layer->number();
    spec.limits = limits_of(build_.limits);
    spec.host_name = "build";
    spec.platform = build_.platform;
    spec.network = network;
    if (is_deterministic) spec.deterministic = {.start_ms = begin_of_next(state), .seed = seed_of(key)};
    return source_.create(spec);
  }

  // The time at which the next step's clock begins.
  static int64_t begin_of_next(const State& state) {
    return state.begin_ms + static_cast<int64_t>(state.layers.size()) * kBetweenLayersMs;
  }

  static uint64_t seed_of(const std::string& key) {
    uint64_t seed = 0;
    std::from_chars(key.data(), key.data() + 16, seed, 16);
    return seed;
  }

  // A layer of the cache, or what `make` does to the files.
  Status add_layer(const linux::DockerInstruction& in, const std::string& key,
                   const std::function<Status(linux::LiveComputer&)>& make) {
    if (take_cached(in, key)) return {};
    tell(in, false);
    MEMBRANE_ASSIGN(const auto computer, start(*state_, key));
    if (Status made = make(*computer); !made) return std::unexpected(with_disk_hint(std::move(made.error())));
    return keep_layer(*computer, key);
  }

  bool take_cached(const linux::DockerInstruction& in, const std::string& key) {
    linux::HostFile found = build_.uses_cache ? cache_.layer(key) : linux::HostFile();
    if (!found) return false;
    tell(in, true);
    ++built_.cached;
    stand_on(std::move(found), key);
    return true;
  }

  Status keep_layer(linux::LiveComputer& computer, const std::string& key) {
    MEMBRANE_ASSIGN(LayerCache::NewEntry entry, cache_.add_layer(key));
    MEMBRANE_TRY(computer.keep(entry.number(), linux::LiveComputer::Keep::kFiles));
    MEMBRANE_TRY(entry.keep());
    return stand_on_made(key);
  }

  Status stand_on_made(const std::string& key) {
    linux::HostFile made = cache_.layer(key);
    if (!made) return fail(ErrorCode::kUnavailable, "a layer that was written no longer exists");
    ++built_.carried_out;
    stand_on(std::move(made), key);
    return {};
  }

  void stand_on(linux::HostFile layer, const std::string& key) {
    state_->layer = std::make_shared<linux::HostFile>(std::move(layer));
    state_->layers.push_back(key);
    state_->key = key;
  }

  static Error with_disk_hint(Error error) {
    if (error.code == ErrorCode::kExhausted && error.hint.empty()) error.hint = kDiskIsFull;
    return error;
  }

  [[nodiscard]] std::string working_directory() const {
    return state_->config.directory.empty() ? "/" : state_->config.directory;
  }

  Status directory(const linux::DockerInstruction& in) {
    MEMBRANE_ASSIGN(const std::string path, word(in.text));
    std::string to = plain(absolute(working_directory(), path));
    if (to.size() > 1 && to.ends_with('/')) to.pop_back();
    state_->config.directory = to;
    MEMBRANE_ASSIGN(const std::string key, KeyText().add(state_->key).add("WORKDIR").add(to).digest());
    return add_layer(
        in, key, [&](linux::LiveComputer& computer) { return make_directories(computer, to, 0755, User()); });
  }

  Result<RunStep> step_of(const linux::DockerInstruction& in) const {
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

  Status run_command_of(const linux::DockerInstruction& in) {
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
      build_.on_warning("line " + std::to_string(in.line) + ": the command continued after a refusal. " +
                        fix);
    if (done->used_network && is_granted) {
      network.is_cached = false;
      network.hosts = contacted_hosts(done->calls);
      network.unlisted_calls = done->unlisted_calls;
      built_.network.push_back(std::move(network));
    }
    return done->used_network ? keep_latest(*done->computer, keys.with_network)
                              : keep_layer(*done->computer, keys.alone);
  }

  // A step that used the network has another layer when servers answer differently, and so have all steps
  // after it: its own key includes its result.
  Status keep_latest(linux::LiveComputer& computer, const std::string& key) {
    MEMBRANE_ASSIGN(LayerCache::NewEntry entry, cache_.add_layer(key));
    MEMBRANE_TRY(computer.keep(entry.number(), linux::LiveComputer::Keep::kFiles));
    MEMBRANE_ASSIGN(const linux::Blob layer, linux::blob_of(dup(entry.number()), "the layer"));
    MEMBRANE_ASSIGN(const std::string bytes, linux::digest_of(layer));
    MEMBRANE_ASSIGN(const std::string own, KeyText().add(key).add(bytes).digest());
    MEMBRANE_TRY(cache_.keep_latest(std::move(entry), key, own));
    return stand_on_made(own);
  }

  // As in Docker, a secret that was not passed is absent, unless it is required.
  Status check_secrets(const linux::DockerInstruction& in, const RunFlags& flags) const {
    for (const SecretMount& each : flags.secrets) {
      if (build_.secrets.contains(each.id)) continue;
      const std::string what = "the secret " + each.id + " was not passed",
                        fix = "Pass it with --secret id=" + each.id + ",src=FILE.";
      if (each.is_required) return wrong(what, fix);
      if (build_.on_warning) build_.on_warning("line " + std::to_string(in.line) + ": " + what + ". " + fix);
    }
    return {};
  }

  // ENV takes precedence over ARG.
  [[nodiscard]] std::vector<std::string> environment_of_run() const {
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

  // For a command that asks for nothing beyond its sandbox, its grants make no difference, except for hosts
  // of this machine: the sandbox's own loopback answers where none is granted. Values of secrets are not part
  // of any key.
  struct RunKeys {
    std::string alone, with_network;
  };
  [[nodiscard]] Result<RunKeys> keys_of(const RunStep& step) const {
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

  // Its text with its here-documents, as a shell reads them. If there is only a document, that is the script.
  static std::string script_of(const linux::DockerInstruction& in) {
    if (in.documents.empty()) return in.text;
    const bool is_alone = in.documents.size() == 1 && in.text.find(' ') == in.text.npos;
    if (is_alone) return in.documents.front().text;
    std::string script = in.text + "\n";
    for (const linux::HereDocument& each : in.documents) script += each.text + each.name + "\n";
    return script;
  }

  // COPY and ADD.
  Status copy(const linux::DockerInstruction& in) {
    for (const auto& [name, value] : in.flags)
      if (name != "from" && name != "chown" && name != "chmod" && name != "link" && name != "keep-git-dir" &&
          name != "checksum")
        return unsupported("--" + name + " is not supported here", "Remove it.");
    MEMBRANE_ASSIGN(auto all, words(in));
    if (all.size() < 2)
      return wrong("it needs a source and a destination", "Write " + in.name + " file directory/.");
    FileCopy copy = {.sources = {}, .to = plain(absolute(working_directory(), all.back())), .owner = {}};
    all.pop_back();
    copy.unpacks = in.name == "ADD";
    copy.most_bytes = std::min(copy.most_bytes, build_.limits.disk_bytes);
    copy.is_cancelled = build_.is_cancelled;
    MEMBRANE_ASSIGN(const std::string mode, word(flag_of(in, "chmod")));
    if (!mode.empty()) {
      uint32_t bits = 0;
      const auto [end, error] = std::from_chars(mode.data(), mode.data() + mode.size(), bits, 8);
      if (error != std::errc() || end != mode.data() + mode.size() || bits > 07777)
        return wrong("\"" + mode + "\" is not a mode", "Write it as an octal number: --chmod=755.");
      copy.mode = bits;
    }
    MEMBRANE_ASSIGN(const std::string owner, word(flag_of(in, "chown")));
    std::map<std::string, std::string> documents;
    MEMBRANE_ASSIGN(documents, take_documents(in, all));
    std::vector<Added> urls;
    MEMBRANE_ASSIGN(urls, take_urls(in, all, copy.to));
    const bool is_many = all.size() + documents.size() + urls.size() > 1;
    KeyText key;
    key.add(state_->key).add(in.name).add(copy.to).add(mode).add(owner);
    for (const auto& [name, text] : documents) key.add(name).add(text);
    for (Added& each : urls) {
      if (!each.source.is_pinned) MEMBRANE_TRY(fetch(in, each));
      key.add("url").add(each.source.name).add(each.source.digest);
    }
    std::unique_ptr<linux::LiveComputer> other;
    std::unique_ptr<SourceFiles> files;
    if (!all.empty()) MEMBRANE_TRY(open_source(in, all, copy, key, other, files));
    if ((is_many || copy.sources.size() > 1) && !copy.to.ends_with('/'))
      return wrong("several files go to \"" + copy.to + "\", which is not marked as a directory",
                   "Add a / at its end.");
    MEMBRANE_ASSIGN(const std::string digest, key.digest());
    return add_layer(in, digest, [&](linux::LiveComputer& computer) -> Status {
      if (!owner.empty()) {
        MEMBRANE_ASSIGN(copy.owner, find_user(owner, computer));
      }
      for (const auto& [name, text] : documents) {
        const std::string to = copy.to.ends_with('/') ? copy.to + name : copy.to;
        MEMBRANE_TRY(put_file(computer, to, text, copy.mode.value_or(0644), copy.owner));
      }
      for (Added& each : urls) {
        if (!each.file) MEMBRANE_TRY(fetch(in, each));
        MEMBRANE_TRY(put_fetched(computer, each.file->number(), each.source.name, copy));
      }
      if (copy.sources.empty()) return {};
      if (other == nullptr && !from_of(in).empty()) {
        MEMBRANE_ASSIGN(other, open_other(from_of(in)));
        files = files_of_computer(*other);
      }
      return copy_files(*files, copy, computer);
    });
  }

  // -- ADD of URLs

  struct Added {
    UrlSource source;
    std::optional<LayerCache::NewEntry> file = {};  // once it was fetched
  };

  // Removes and returns the URLs among the words.
  Result<std::vector<Added>> take_urls(const linux::DockerInstruction& in, std::vector<std::string>& all,
                                       const std::string& to) const {
    if (std::ranges::any_of(all, is_url) && (in.name != "ADD" || !from_of(in).empty()))
      return wrong("a URL is not a file of the build", "ADD brings it.");
    std::optional<std::string> checksum;
    for (const auto& [name, value] : in.flags)
      if (name == "checksum") {
        MEMBRANE_ASSIGN(checksum, word(value));
      }
    MEMBRANE_ASSIGN(auto sources, take_url_sources(all, to, checksum));
    std::vector<Added> urls;
    for (UrlSource& each : sources) urls.push_back({.source = std::move(each)});
    return urls;
  }

  Status fetch(const linux::DockerInstruction& in, Added& added) {
    UrlSource& source = added.source;
    MEMBRANE_ASSIGN(LayerCache::NewEntry file, cache_.add_scratch());
    const auto fetched = fetch_url({.url = source.url,
                                    .grants = build_.grants,
                                    .limits = build_.limits,
                                    .most_bytes = build_.limits.disk_bytes,
                                    .is_cancelled = build_.is_cancelled},
                                   file.number());
    if (!fetched) return std::unexpected(with_disk_hint(fetched.error()));
    if (source.is_pinned && fetched->digest != source.digest)
      return wrong(source.url + " has the checksum sha256:" + fetched->digest,
                   "Check what has changed before you put this one into the Dockerfile.");
    source.digest = fetched->digest;
    added.file.emplace(std::move(file));
    built_.network.push_back({.line = in.line,
                              .instruction = text_of(in),
                              .is_cached = false,
                              .is_pinned = source.is_pinned,
                              .hosts = contacted_hosts(fetched->calls)});
    return {};
  }

  [[nodiscard]] std::string from_of(const linux::DockerInstruction& in) const {
    return word(flag_of(in, "from")).value_or("");
  }

  // What is to be copied, and what it adds to the key.
  Status open_source(const linux::DockerInstruction& in, const std::vector<std::string>& patterns,
                     FileCopy& copy, KeyText& key, std::unique_ptr<linux::LiveComputer>& other,
                     std::unique_ptr<SourceFiles>& files) {
    const std::string from = from_of(in);
    if (from.empty()) {
      MEMBRANE_ASSIGN(files, files_of_directory(build_.context, build_.ignored));
    } else {
      MEMBRANE_ASSIGN(other, open_other(from));
      files = files_of_computer(*other);
    }
    for (const std::string& pattern : patterns) {
      MEMBRANE_ASSIGN(const auto found, expand_sources(*files, pattern));
      copy.sources.insert(copy.sources.end(), found.begin(), found.end());
    }
    if (from.empty()) {
      MEMBRANE_ASSIGN(const std::string digest, digest_of_copy(*files, copy));
      key.add(digest);
    } else {
      MEMBRANE_ASSIGN(const State state, state_of(from));
      key.add(state.key).add(copy.sources);
    }
    return {};
  }

  Result<State> state_of(const std::string& from) {
    if (const State* const stage = find_stage(from)) return *stage;
    if (!stages_.empty() && stages_.back().first == from && !from.empty())
      return wrong("the stage \"" + from + "\" cannot copy from itself");
    return begin_other(from);
  }
  Result<State> begin_other(const std::string& name) {
    MEMBRANE_ASSIGN(const linux::StoredImage image, image_named(name));
    MEMBRANE_ASSIGN(const auto layer, linux::Layer::open(image.path));
    State state;
    state.image_path = image.path;
    state.key = layer->digest();
    return state;
  }
  Result<std::unique_ptr<linux::LiveComputer>> open_other(const std::string& from) {
    MEMBRANE_ASSIGN(const State state, state_of(from));
    return start(state, state.key);
  }

  // Removes and returns the here-documents among the words.
  Result<std::map<std::string, std::string>> take_documents(const linux::DockerInstruction& in,
                                                            std::vector<std::string>& all) const {
    std::map<std::string, std::string> documents;
    for (const linux::HereDocument& each : in.documents) {
      std::string text = each.text;
      if (each.expands) {
        MEMBRANE_ASSIGN(text, expand_document(text));
      }
      documents[each.name] = std::move(text);
      std::erase_if(all, [&](const std::string& word) {
        return word == "<<" + each.name || word == "<<-" + each.name;
      });
    }
    return documents;
  }

  // Quotes have no meaning in a document.
  [[nodiscard]] Result<std::string> expand_document(const std::string& text) const {
    std::string quoted;
    for (const char c : text) {
      if (c == '\'' || c == '"') quoted += file_.escape;
      quoted += c;
    }
    return word(quoted);
  }

  // -- the image

  Result<BuiltImage> finish() {
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

  const ImageBuild& build_;
  linux::ComputerSource& source_;
  const LayerCache cache_;
  linux::Dockerfile file_;
  std::optional<State> state_;
  std::vector<std::pair<std::string, std::unique_ptr<State>>> stages_;
  std::map<std::string, std::string> arguments_, global_arguments_;
  std::set<std::string> used_arguments_;
  bool has_command_ = false;
  size_t step_ = 0, steps_ = 0;
  BuiltImage built_;
};

}  // namespace

policy::Limits usual_build_limits() {
  constexpr uint64_t kDiskBytes = 4ull << 30;  // builds unpack packages
  policy::Limits limits = usual_limits();
  limits.disk_bytes = kDiskBytes;
  return limits;
}

Result<BuiltImage> build_image(const ImageBuild& build, linux::ComputerSource& source) {
  MEMBRANE_ASSIGN(LayerCache cache, LayerCache::open());
  MEMBRANE_TRY(linux::path_of_new_image(build.name));
  return Building(build, source, std::move(cache)).run();
}

Result<BuiltImage> build_image(const ImageBuild& build) {
  MEMBRANE_ASSIGN(const auto source, linux::ComputerSource::create(1));
  source->make_ready();
  return build_image(build, *source);
}

}  // namespace membrane::computers
