// Linux guests as bytes, and from bytes: saving one, starting from a saved one, and patches, which compare two.
#include <fcntl.h>
#include <unistd.h>

#include <utility>

#include "base/text.h"
#include "computers/description.h"
#include "computers/patch.h"
#include "computers/settings.h"
#include "linux/kept/kept_file.h"
#include "service/linux_guest.h"

namespace membrane::service {
namespace {

constexpr uint64_t kMostKeptBytes = 2ull << 30;  // they are in memory on their way to disk

using linux::HostFile;

Result<HostFile> memory_file_of(const std::vector<uint8_t>& bytes) {
  MEMBRANE_ASSIGN(HostFile file, linux::memory_to_keep_in());
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t written =
        pwrite(file.number(), bytes.data() + at, bytes.size() - at, static_cast<off_t>(at));
    if (written <= 0) return fail(ErrorCode::kExhausted, "there is not enough memory to save a sandbox");
    at += static_cast<size_t>(written);
  }
  return file;
}

Result<HostFile> for_reading(const HostFile& file) {
  HostFile opened(open(("/proc/self/fd/" + std::to_string(file.number())).c_str(), O_RDONLY | O_CLOEXEC));
  if (opened) return opened;
  return fail(ErrorCode::kInternal, "a saved sandbox cannot be read");
}

computers::PatchLimits patch_limits(const computers::PatchMemory& memory) {
  constexpr size_t kMostPatchBytes = 64u << 20, kMostPatchFiles = 10'000;
  return {.text_bytes = kMostPatchBytes,
          .files = kMostPatchFiles,
          .file_bytes = LinuxFiles::kMostBytes,
          .memory = memory};
}

}  // namespace

// -- saving -------------------------------------------------------------------------------------------------------

Answer<std::vector<KeptContext>> LinuxGuest::keep(std::optional<uint64_t> fork) {
  const auto file = kept_file();
  if (!file) return std::unexpected(file.error());
  std::vector<KeptContext> all = {{"", spec_.template_name, {}, {}, *file}};
  if (!fork) {
    if (const uint64_t bytes = all[0].size_bytes(); bytes > kMostKeptBytes)
      return refuse(ApiCode::kTooLarge,
                    "the sandbox is " + count_of(bytes, "byte") + ", and " + std::to_string(kMostKeptBytes) +
                        " can be saved",
                    "Remove files, or end processes that have much memory.");
    if (const auto tried = try_out(**file); !tried) return std::unexpected(tried.error());
  }
  const std::lock_guard lock(mutex_);
  for (const auto& [id, directory] : contexts_)
    all.push_back({id, spec_.template_name, {directory.begin(), directory.end()}, {}, nullptr});
  return all;
}

Answer<std::shared_ptr<const HostFile>> LinuxGuest::kept_file() {
  auto file = linux::memory_to_keep_in();
  if (!file) return std::unexpected(api_error(file.error()));
  if (const Status kept = computer()->keep(file->number(), linux::LiveComputer::Keep::kAll); !kept)
    return std::unexpected(computer_error(kept.error()));
  auto opened = for_reading(*file);
  if (!opened) return std::unexpected(api_error(opened.error()));
  return std::make_shared<const HostFile>(*std::move(opened));
}

Answer<void> LinuxGuest::try_out(const HostFile& kept) {
  const HostFile image = image_file();
  linux::LiveSpec spec = spec_from(kept, image);
  spec.stands_still = true;
  const policy::Policy policy = [this] {
    const std::lock_guard lock(mutex_);
    return spec_.policy;
  }();
  const auto made = build(spec, policy);
  if (made) return {};
  return refuse(ApiCode::kConflict,
                "the sandbox cannot be saved in its current state: " + made.error().message,
                "It continues to run. End unusual processes, and try again.");
}

// -- starting from a saved one ------------------------------------------------------------------------------------

Answer<void> LinuxGuest::begin_from(const std::vector<KeptContext>& contexts) {
  for (const KeptContext& kept : contexts) {
    if (!kept.id.empty()) {
      contexts_[kept.id] = std::string(kept.bytes.begin(), kept.bytes.end());
      continue;
    }
    std::shared_ptr<const HostFile> file = kept.file;
    if (file == nullptr) {
      auto made = memory_file_of(kept.bytes);
      if (!made) return std::unexpected(api_error(made.error()));
      file = std::make_shared<const HostFile>(*std::move(made));
    }
    if (const auto held = lie_over_image_of(*file); !held) return held;
    if (const auto made = make_from(*file, spec_.policy); !made) return made;
  }
  if (computer_ != nullptr) return {};
  return refuse(ApiCode::kInvalidValue, "the saved state has no context of its own", "");
}

Answer<void> LinuxGuest::lie_over_image_of(const HostFile& kept) {
  const auto facts = linux::read_kept_facts(kept.number());
  if (!facts || facts->image_digest.empty()) return {};  // errors are found when it is started
  const std::string path = linux::path_of_image(linux::may_be_image(facts->image_name)
                                                    ? facts->image_name
                                                    : stored_.path,  // or was it saved on another machine?
                                                facts->image_digest);
  hold_image(path);
  if (!image_file())
    return refuse(ApiCode::kConflict, "the image of the sandbox no longer exists",
                  "Import it again under the same name; GET /v1/templates lists the images.");
  if (facts->image_digest != stored_.digest) begin_as(path, facts->image_digest);
  return {};
}

void LinuxGuest::begin_as(const std::string& path, const std::string& digest) {
  auto image = linux::find_image(path);
  if (!image || image->digest != digest) return;
  if (!stored_.name.empty()) image->name = stored_.name;
  stored_ = *std::move(image);
  mark_ = computers::mark_of(stored_);
  base_environment_ = computers::environment_of(stored_.config);
  base_directory_ = computers::directory_of(stored_.config);
}

linux::LiveSpec LinuxGuest::spec_from(const HostFile& kept, const HostFile& image) {
  linux::LiveSpec spec;
  spec.kept = kept.number();
  spec.image_file = image.number();
  return spec;
}

Answer<void> LinuxGuest::make_from(const HostFile& kept, const policy::Policy& policy) {
  const HostFile image = image_file();
  return make(spec_from(kept, image), policy);
}

// -- patches ------------------------------------------------------------------------------------------------------

Answer<std::unique_ptr<linux::LiveComputer>> LinuxGuest::files_of(const KeptContext& then,
                                                                  const linux::Layer* image) {
  const auto file = memory_file_of(then.bytes);
  if (!file) return std::unexpected(api_error(file.error()));
  const auto facts = linux::read_kept_facts(file->number());
  if (!facts) return std::unexpected(api_error(facts.error()));
  if (facts->image_digest != (image == nullptr ? std::string_view() : image->digest()))
    return refuse(ApiCode::kConflict, "the snapshot and the sandbox began with different images",
                  "Use a snapshot of this sandbox, or of one with the same image.");
  const HostFile image_file = this->image_file();
  linux::LiveSpec spec = spec_from(*file, image_file);
  spec.kept_files_only = true;
  spec.limits.disk_bytes = UINT64_MAX;  // the limit may be smaller by now
  auto made = source_.create(spec);
  if (!made) return std::unexpected(computer_error(made.error()));
  return *std::move(made);
}

Answer<std::string> LinuxGuest::make_patch(const std::string& directory, const KeptContext* since,
                                           const computers::PatchMemory& memory) {
  if (const auto checked = LinuxFiles::check_path(directory); !checked)
    return std::unexpected(checked.error());
  std::shared_ptr<const linux::Layer> image;
  const linux::HostFile file = image_file();
  if (file) {
    auto opened = linux::Layer::open(dup(file.number()), "the image");
    if (!opened) return std::unexpected(api_error(opened.error()));
    image = *std::move(opened);
  }
  std::unique_ptr<linux::LiveComputer> base;
  if (since != nullptr) {
    auto made = files_of(*since, image.get());
    if (!made) return std::unexpected(made.error());
    base = *std::move(made);
  }
  const computers::PatchLimits limits = patch_limits(memory);
  auto patch = base ? computers::make_patch_since(*base, *computer(), image.get(), directory, limits)
                    : computers::make_patch(*computer(), image.get(), directory, limits);
  if (!patch) return std::unexpected(file_error(patch.error()));
  return std::move(patch->text);
}

Answer<std::vector<std::string>> LinuxGuest::apply_patch(const std::string& directory, std::string_view patch,
                                                         const computers::PatchMemory& memory) {
  if (const auto checked = LinuxFiles::check_path(directory); !checked)
    return std::unexpected(checked.error());
  auto applied = computers::apply_patch(*computer(), patch, directory, patch_limits(memory));
  if (!applied) return std::unexpected(file_error(applied.error()));
  return std::move(applied->changed);
}

}  // namespace membrane::service
