// COPY and ADD of a build: files of the context, of other stages and images, here-documents, and URLs.
#include <algorithm>
#include <charconv>
#include <utility>

#include "computers/build_network.h"
#include "computers/image_builder.h"
#include "computers/users.h"
#include "linux/image/layer.h"

namespace membrane::computers {

Status ImageBuilder::copy(const linux::DockerInstruction& in) {
  for (const auto& [name, value] : in.flags)
    if (name != "from" && name != "chown" && name != "chmod" && name != "link" && name != "keep-git-dir" &&
        name != "checksum")
      return unsupported("--" + name + " is not supported here", "Remove it.");
  MEMBRANE_ASSIGN(auto all, words(in));
  if (all.size() < 2)
    return wrong("it needs a source and a destination", "Write " + in.name + " file directory/.");
  FileCopy copy = {.sources = {}, .to = path_in_image(all.back()), .owner = {}};
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

Status ImageBuilder::open_source(const linux::DockerInstruction& in, const std::vector<std::string>& patterns,
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

Result<ImageBuilder::State> ImageBuilder::state_of(const std::string& from) {
  if (const State* const stage = find_stage(from)) return *stage;
  if (!stages_.empty() && stages_.back().first == from && !from.empty())
    return wrong("the stage \"" + from + "\" cannot copy from itself");
  return begin_other(from);
}

Result<ImageBuilder::State> ImageBuilder::begin_other(const std::string& name) {
  MEMBRANE_ASSIGN(const linux::StoredImage image, image_named(name));
  MEMBRANE_ASSIGN(const auto layer, linux::Layer::open(image.path));
  State state;
  state.image_path = image.path;
  state.key = layer->digest();
  return state;
}

Result<std::unique_ptr<linux::LiveComputer>> ImageBuilder::open_other(const std::string& from) {
  MEMBRANE_ASSIGN(const State state, state_of(from));
  return start(state, state.key);
}

// -- here-documents -----------------------------------------------------------------------------------------------

Result<std::map<std::string, std::string>> ImageBuilder::take_documents(const linux::DockerInstruction& in,
                                                                        std::vector<std::string>& all) const {
  std::map<std::string, std::string> documents;
  for (const linux::HereDocument& each : in.documents) {
    std::string text = each.text;
    if (each.expands) {
      MEMBRANE_ASSIGN(text, expand_document(text));
    }
    documents[each.name] = std::move(text);
    std::erase_if(
        all, [&](const std::string& word) { return word == "<<" + each.name || word == "<<-" + each.name; });
  }
  return documents;
}

Result<std::string> ImageBuilder::expand_document(const std::string& text) const {
  std::string quoted;
  for (const char c : text) {
    if (c == '\'' || c == '"') quoted += file_.escape;
    quoted += c;
  }
  return word(quoted);
}

// -- URLs ---------------------------------------------------------------------------------------------------------

Result<std::vector<ImageBuilder::Added>> ImageBuilder::take_urls(const linux::DockerInstruction& in,
                                                                 std::vector<std::string>& all,
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

Status ImageBuilder::fetch(const linux::DockerInstruction& in, Added& added) {
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

}  // namespace membrane::computers
