// The layers of a build: from the cache, or made in a sandbox over the ones before.
#include <unistd.h>

#include <charconv>
#include <ranges>
#include <utility>

#include "computers/image_builder.h"
#include "computers/settings.h"
#include "linux/image/blob.h"

namespace membrane::computers {
namespace {

uint64_t seed_of(const std::string& key) {
  uint64_t seed = 0;
  std::from_chars(key.data(), key.data() + 16, seed, 16);
  return seed;
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

}  // namespace

Result<std::unique_ptr<linux::LiveComputer>> ImageBuilder::start(const State& state, const std::string& key,
                                                                 bool is_deterministic, int network) {
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

Status ImageBuilder::add_layer(const linux::DockerInstruction& in, const std::string& key,
                               const std::function<Status(linux::LiveComputer&)>& make) {
  if (take_cached(in, key)) return {};
  tell(in, false);
  MEMBRANE_ASSIGN(const auto computer, start(*state_, key));
  if (Status made = make(*computer); !made) return std::unexpected(with_disk_hint(std::move(made.error())));
  return keep_layer(*computer, key);
}

bool ImageBuilder::take_cached(const linux::DockerInstruction& in, const std::string& key) {
  linux::HostFile found = build_.uses_cache ? cache_.layer(key) : linux::HostFile();
  if (!found) return false;
  tell(in, true);
  ++built_.cached;
  stand_on(std::move(found), key);
  return true;
}

Status ImageBuilder::keep_layer(linux::LiveComputer& computer, const std::string& key) {
  MEMBRANE_ASSIGN(LayerCache::NewEntry entry, cache_.add_layer(key));
  MEMBRANE_TRY(computer.keep(entry.number(), linux::LiveComputer::Keep::kFiles));
  MEMBRANE_TRY(entry.keep());
  return stand_on_made(key);
}

Status ImageBuilder::keep_latest(linux::LiveComputer& computer, const std::string& key) {
  MEMBRANE_ASSIGN(LayerCache::NewEntry entry, cache_.add_layer(key));
  MEMBRANE_TRY(computer.keep(entry.number(), linux::LiveComputer::Keep::kFiles));
  MEMBRANE_ASSIGN(const linux::Blob layer, linux::blob_of(dup(entry.number()), "the layer"));
  MEMBRANE_ASSIGN(const std::string bytes, linux::digest_of(layer));
  MEMBRANE_ASSIGN(const std::string own, KeyText().add(key).add(bytes).digest());
  MEMBRANE_TRY(cache_.keep_latest(std::move(entry), key, own));
  return stand_on_made(own);
}

Status ImageBuilder::stand_on_made(const std::string& key) {
  linux::HostFile made = cache_.layer(key);
  if (!made) return fail(ErrorCode::kUnavailable, "a layer that was written no longer exists");
  ++built_.carried_out;
  stand_on(std::move(made), key);
  return {};
}

void ImageBuilder::stand_on(linux::HostFile layer, const std::string& key) {
  state_->layer = std::make_shared<linux::HostFile>(std::move(layer));
  state_->layers.push_back(key);
  state_->key = key;
}

Error ImageBuilder::with_disk_hint(Error error) {
  if (error.code == ErrorCode::kExhausted && error.hint.empty()) error.hint = kDiskIsFull;
  return error;
}

std::string ImageBuilder::path_in_image(const std::string& path) const {
  return plain(absolute(working_directory(), path));
}

Status ImageBuilder::directory(const linux::DockerInstruction& in) {
  MEMBRANE_ASSIGN(const std::string path, word(in.text));
  std::string to = path_in_image(path);
  if (to.size() > 1 && to.ends_with('/')) to.pop_back();
  state_->config.directory = to;
  MEMBRANE_ASSIGN(const std::string key, KeyText().add(state_->key).add("WORKDIR").add(to).digest());
  return add_layer(
      in, key, [&](linux::LiveComputer& computer) { return make_directories(computer, to, 0755, User()); });
}

}  // namespace membrane::computers
