// One build of an image (image_build.h): the state of its stages, and what each instruction does to it.
//
// image_build.cc goes through the instructions; image_build_*.cc carry them out: the stages, the settings
// of the image, layers, RUN, and COPY with ADD.
//
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "computers/build_run.h"
#include "computers/file_copy.h"
#include "computers/image_build.h"
#include "computers/key_text.h"
#include "computers/layer_cache.h"
#include "computers/source_files.h"
#include "computers/url_fetch.h"
#include "linux/image/config.h"
#include "linux/image/dockerfile.h"
#include "linux/image/store.h"
#include "linux/platform/trap/host_file.h"
#include "linux/sandbox/live_computer.h"

namespace membrane::computers {

class ImageBuilder {
 public:
  // `build` and `source` are borrowed.
  ImageBuilder(const ImageBuild& build, linux::ComputerSource& source, LayerCache cache)
      : build_(build), source_(source), cache_(std::move(cache)) {}

  // Once. Errors: those of build_image().
  Result<BuiltImage> run();

 private:
  static constexpr int64_t kFirstMs = 946'684'800'000;  // 2000
  static constexpr int64_t kBetweenLayersMs = 3'600'000;

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
  struct StagePlan {
    std::string name;
    size_t begin = 0, end = 0;  // of the instructions
    bool is_needed = false;
  };
  struct StageNames {
    std::string base, name;  // FROM base AS name
  };

  static std::unexpected<Error> wrong(std::string what, std::string hint = "") {
    return fail(ErrorCode::kInvalidInput, std::move(what), std::move(hint));
  }
  static std::unexpected<Error> unsupported(std::string what, std::string hint) {
    return fail(ErrorCode::kUnsupported, std::move(what), std::move(hint));
  }

  // -- instructions

  Status carry_out_at_line(const linux::DockerInstruction& in);
  Status carry_out(const linux::DockerInstruction& in);
  static Error at_line(const linux::DockerInstruction& instruction, Error error);
  static std::string text_of(const linux::DockerInstruction& in);
  static std::string flag_of(const linux::DockerInstruction& instruction, std::string_view name);
  void tell(const linux::DockerInstruction& in, bool is_cached) const;
  Result<BuiltImage> finish();

  // -- variables

  [[nodiscard]] std::optional<std::string_view> variable(std::string_view name) const;
  [[nodiscard]] linux::DockerVariables variables() const {
    return [this](std::string_view name) { return variable(name); };
  }
  [[nodiscard]] Result<std::string> word(const std::string& text) const {
    return linux::expand_docker_word(text, variables(), file_.escape);
  }
  [[nodiscard]] Result<std::vector<std::string>> words(const linux::DockerInstruction& in) const;

  // -- stages

  Status from(const linux::DockerInstruction& in);
  Result<StageNames> names_of(const linux::DockerInstruction& in) const;
  // The stages up to the one to build; the stages that it copies from are needed, and those that these copy
  // from.
  Result<std::vector<StagePlan>> plan(size_t first) const;
  // The earlier stages that this stage copies from. A name with variables, which only its ARGs know, may be
  // any of them.
  void mark_needed(std::vector<StagePlan>& plans, size_t stage) const;
  void leave_out(const StagePlan& stage);
  // The stage has ended; the variables are the global ones again.
  void put_away();
  // Only images of the user's own store, whose digests are known. A path in a Dockerfile could name anybody's
  // file, which could pass for another image.
  static Result<linux::StoredImage> image_named(const std::string& name);
  Result<State> begin(const std::string& name);
  [[nodiscard]] const State* find_stage(const std::string& name) const;

  // -- instructions that change nothing but what is said of the image

  Status argument(const linux::DockerInstruction& in);
  Status environment(const linux::DockerInstruction& in);
  Status label(const linux::DockerInstruction& in);
  Status maintainer(const linux::DockerInstruction& in);
  Status user(const linux::DockerInstruction& in);
  Status shell(const linux::DockerInstruction& in);
  [[nodiscard]] std::vector<std::string> in_shell(const std::string& text) const;
  // An entrypoint discards the command of the base image.
  Status entrypoint(const linux::DockerInstruction& in);
  Status command(const linux::DockerInstruction& in);
  Status expose(const linux::DockerInstruction& in);

  // -- layers

  Result<std::unique_ptr<linux::LiveComputer>> start(const State& state, const std::string& key,
                                                     bool is_deterministic = true, int network = -1);
  // The time at which the next step's clock begins.
  static int64_t begin_of_next(const State& state) {
    return state.begin_ms + static_cast<int64_t>(state.layers.size()) * kBetweenLayersMs;
  }
  // A layer of the cache, or what `make` does to the files.
  Status add_layer(const linux::DockerInstruction& in, const std::string& key,
                   const std::function<Status(linux::LiveComputer&)>& make);
  bool take_cached(const linux::DockerInstruction& in, const std::string& key);
  Status keep_layer(linux::LiveComputer& computer, const std::string& key);
  // A step that used the network has another layer when servers answer differently, and so have all steps
  // after it: its own key includes its result.
  Status keep_latest(linux::LiveComputer& computer, const std::string& key);
  Status stand_on_made(const std::string& key);
  void stand_on(linux::HostFile layer, const std::string& key);
  static Error with_disk_hint(Error error);
  [[nodiscard]] std::string working_directory() const {
    return state_->config.directory.empty() ? "/" : state_->config.directory;
  }
  // From the root, without "." and "..", but with a trailing '/', if any: a directory.
  [[nodiscard]] std::string path_in_image(const std::string& path) const;
  Status directory(const linux::DockerInstruction& in);

  // -- RUN

  Status run_command_of(const linux::DockerInstruction& in);
  Result<RunStep> step_of(const linux::DockerInstruction& in) const;
  // As in Docker, a secret that was not passed is absent, unless it is required.
  Status check_secrets(const linux::DockerInstruction& in, const RunFlags& flags) const;
  // ENV takes precedence over ARG.
  [[nodiscard]] std::vector<std::string> environment_of_run() const;
  // For a command that asks for nothing beyond its sandbox, its grants make no difference, except for hosts
  // of this machine: the sandbox's own loopback answers where none is granted. Values of secrets are not part
  // of any key.
  struct RunKeys {
    std::string alone, with_network;
  };
  [[nodiscard]] Result<RunKeys> keys_of(const RunStep& step) const;

  // -- COPY and ADD

  Status copy(const linux::DockerInstruction& in);
  // A URL of ADD.
  struct Added {
    UrlSource source;
    std::optional<LayerCache::NewEntry> file = {};  // once it was fetched
  };
  // Removes and returns the URLs among the words.
  Result<std::vector<Added>> take_urls(const linux::DockerInstruction& in, std::vector<std::string>& all,
                                       const std::string& to) const;
  Status fetch(const linux::DockerInstruction& in, Added& added);
  [[nodiscard]] std::string from_of(const linux::DockerInstruction& in) const {
    return word(flag_of(in, "from")).value_or("");
  }
  // What is to be copied, and what it adds to the key.
  Status open_source(const linux::DockerInstruction& in, const std::vector<std::string>& patterns,
                     FileCopy& copy, KeyText& key, std::unique_ptr<linux::LiveComputer>& other,
                     std::unique_ptr<SourceFiles>& files);
  Result<State> state_of(const std::string& from);
  Result<State> begin_other(const std::string& name);
  Result<std::unique_ptr<linux::LiveComputer>> open_other(const std::string& from);
  // Removes and returns the here-documents among the words.
  Result<std::map<std::string, std::string>> take_documents(const linux::DockerInstruction& in,
                                                            std::vector<std::string>& all) const;
  // Quotes have no meaning in a document.
  [[nodiscard]] Result<std::string> expand_document(const std::string& text) const;

  const ImageBuild& build_;
  linux::ComputerSource& source_;
  const LayerCache cache_;
  linux::Dockerfile file_;
  std::optional<State> state_;  // of the current stage; nothing before the first
  std::vector<std::pair<std::string, std::unique_ptr<State>>> stages_;  // by name; null: left out, or current
  std::map<std::string, std::string> arguments_, global_arguments_;
  std::set<std::string> used_arguments_;
  bool has_command_ = false;
  size_t step_ = 0, steps_ = 0;
  BuiltImage built_;
};

}  // namespace membrane::computers
