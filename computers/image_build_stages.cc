// The stages of a build: which ones it needs, and what each begins with.
#include <algorithm>
#include <utility>

#include "computers/image_builder.h"
#include "linux/image/layer.h"

namespace membrane::computers {
namespace {

constexpr std::string_view kVersion = "membrane build 2";

// The modification time of the newest file of an image; at least `first_ms`.
int64_t newest_ms(const linux::Layer& image, int64_t first_ms) {
  constexpr int64_t kLastMs = 4'102'444'800'000;  // 2100
  int64_t newest = first_ms;
  for (uint32_t number = 0; number < image.inode_count(); ++number)
    if (const auto inode = image.inode(number); inode && inode->modified_s <= kLastMs / 1000)
      newest = std::max(newest, (inode->modified_s + 1) * 1000);
  return newest;
}

}  // namespace

Result<ImageBuilder::StageNames> ImageBuilder::names_of(const linux::DockerInstruction& in) const {
  MEMBRANE_ASSIGN(const auto all, words(in));
  const bool is_named = all.size() == 3 && (all[1] == "AS" || all[1] == "as" || all[1] == "As");
  if (all.size() != 1 && !is_named) return wrong("this is not \"FROM image\" or \"FROM image AS name\"");
  return StageNames{.base = all.front(), .name = is_named ? all[2] : ""};
}

Result<std::vector<ImageBuilder::StagePlan>> ImageBuilder::plan(size_t first) const {
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

void ImageBuilder::mark_needed(std::vector<StagePlan>& plans, size_t stage) const {
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

void ImageBuilder::leave_out(const StagePlan& stage) {
  put_away();
  stages_.emplace_back(stage.name, nullptr);
  for (size_t i = stage.begin; i < stage.end; ++i) {
    if (file_.instructions[i].name != "ARG") continue;
    const auto pairs = linux::docker_pairs(file_.instructions[i], variables(), file_.escape);
    if (!pairs) continue;
    for (const auto& pair : *pairs) used_arguments_.insert(pair.name);
  }
}

void ImageBuilder::put_away() {
  if (state_) stages_.back().second = std::make_unique<State>(std::move(*state_));
  state_.reset();
}

Status ImageBuilder::from(const linux::DockerInstruction& in) {
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

Result<linux::StoredImage> ImageBuilder::image_named(const std::string& name) {
  if (name.find('/') != name.npos)
    return wrong('"' + name + "\" is not a name of an image",
                 "FROM takes the name of an image; `membrane image import FILE --tag NAME` imports one.");
  return linux::find_image(name);
}

Result<ImageBuilder::State> ImageBuilder::begin(const std::string& name) {
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
  state.begin_ms = newest_ms(*layer, kFirstMs);
  state.config = image.config;
  MEMBRANE_ASSIGN(state.key, KeyText().add(kVersion).add(state.image_digest).digest());
  return state;
}

const ImageBuilder::State* ImageBuilder::find_stage(const std::string& name) const {
  for (size_t i = 0; i < stages_.size(); ++i)
    if (stages_[i].second && (stages_[i].first == name || std::to_string(i) == name))
      return stages_[i].second.get();
  return nullptr;
}

}  // namespace membrane::computers
