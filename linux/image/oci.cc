#include "linux/image/oci.h"

#include <algorithm>
#include <optional>

#include "base/json.h"
#include "base/sha256.h"
#include "linux/image/archive.h"

namespace membrane::linux {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kMostJsonBytes = 4u << 20;
constexpr size_t kMostLayers = 1024, kMostIndexes = 4;
constexpr JsonLimits kLimits = {
    .bytes = kMostJsonBytes, .depth = 32, .values = 200'000, .memory_bytes = 64u << 20};

std::unexpected<Error> wrong(const std::string& what) {
  return fail(ErrorCode::kInvalidInput, "the image is damaged: " + what);
}

// The member if it is present and of that type; otherwise a null value.
const Json& member(const Json& object, const char* name, Json::value_t type) {
  static const Json kNone;
  if (!object.is_object()) return kNone;
  const auto found = object.find(name);
  return found != object.end() && found->type() == type ? *found : kNone;
}

std::string text(const Json& object, const char* name) {
  const Json& found = member(object, name, Json::value_t::string);
  return found.is_string() ? found.get<std::string>() : "";
}

Result<Json> read_file(const ImageFiles& files, const std::string& path) {
  MEMBRANE_ASSIGN(const Blob blob, files.open(path));
  MEMBRANE_ASSIGN(const std::string json, text_of(blob, kMostJsonBytes));
  return read_json(json, path, kLimits);
}

bool is_digest(std::string_view text) {
  constexpr std::string_view kPrefix = "sha256:";
  if (!text.starts_with(kPrefix) || text.size() != kPrefix.size() + 64) return false;
  return std::ranges::all_of(text.substr(kPrefix.size()),
                             [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// The blob that an OCI descriptor names, with its digest checked.
Result<Blob> open_descriptor(const ImageFiles& files, const Json& descriptor) {
  const std::string digest = text(descriptor, "digest");
  if (!is_digest(digest)) return wrong("it has a digest that is not a SHA-256");
  MEMBRANE_ASSIGN(Blob blob, files.open("blobs/sha256/" + digest.substr(7)));
  MEMBRANE_ASSIGN(const std::string found, digest_of(blob));
  if ("sha256:" + found != digest)
    return wrong("a file of it has the digest sha256:" + found + " and not " + digest);
  return blob;
}

Result<Json> read_descriptor(const ImageFiles& files, const Json& descriptor) {
  MEMBRANE_ASSIGN(const Blob blob, open_descriptor(files, descriptor));
  MEMBRANE_ASSIGN(const std::string json, text_of(blob, kMostJsonBytes));
  return read_json(json, "a manifest", kLimits);
}

Result<ImageConfig> config_of(const Json& configuration) {
  const std::string system = text(configuration, "os"), machine = text(configuration, "architecture");
  if ((!system.empty() && system != "linux") || (!machine.empty() && machine != "amd64"))
    return fail(ErrorCode::kUnsupported, "the image is for " + system + "/" + machine,
                "Pass an image for linux/amd64.");
  return read_image_config(json_text(member(configuration, "config", Json::value_t::object)));
}

bool is_for_this(const Json& descriptor) {
  const Json& platform = member(descriptor, "platform", Json::value_t::object);
  if (!platform.is_object()) return true;
  return text(platform, "os") == "linux" && text(platform, "architecture") == "amd64";
}

std::string name_of(const Json& descriptor) {
  const Json& annotations = member(descriptor, "annotations", Json::value_t::object);
  const std::string full = text(annotations, "io.containerd.image.name");
  return full.empty() ? text(annotations, "org.opencontainers.image.ref.name") : full;
}

// "docker.io/library/debian:12" is also "debian:12", and "debian:latest" is "debian".
bool is_named(std::string given, const std::string& name) {
  const auto without_latest = [](std::string_view text) {
    return text.ends_with(":latest") ? text.substr(0, text.size() - 7) : text;
  };
  for (const std::string_view prefix : {"docker.io/", "library/"})
    if (given.starts_with(prefix)) given.erase(0, prefix.size());
  return without_latest(given) == without_latest(name);
}

std::unexpected<Error> several(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& each : names)
    all += (all.empty() ? "" : ", ") + (each.empty() ? "one without a name" : each);
  return fail(ErrorCode::kInvalidInput, "there are several images: " + all, "Name one of them.");
}

// The manifest in an index that is wanted.
Result<Json> choose(const Json& index, const std::string& name) {
  const Json& manifests = member(index, "manifests", Json::value_t::array);
  std::vector<const Json*> fitting;
  std::vector<std::string> names;
  for (const Json& each : manifests)
    if (is_for_this(each)) {
      fitting.push_back(&each);
      names.push_back(name_of(each));
    }
  if (fitting.empty() && manifests.is_array() && !manifests.empty())
    return fail(ErrorCode::kUnsupported, "the image is for other machines", "Pass an image for linux/amd64.");
  if (fitting.empty()) return wrong("it has no manifest");
  if (fitting.size() == 1) return *fitting.front();
  for (size_t i = 0; i < fitting.size(); ++i)
    if (is_named(names[i], name)) return *fitting[i];
  return several(names);
}

// The limit for a layer's decompressed contents.
Result<std::string> plain_digest_of(const Blob& layer) {
  MEMBRANE_ASSIGN(ArchiveReading reading, ArchiveReading::open(layer, ArchiveReading::Form::kBytes));
  MEMBRANE_ASSIGN(Sha256 digest, Sha256::begin());
  MEMBRANE_ASSIGN(const struct archive_entry* const entry, reading.next());
  while (entry != nullptr) {
    MEMBRANE_ASSIGN(const ArchiveReading::Piece piece, reading.read());
    if (piece.is_end) break;
    digest.add(piece.bytes);
  }
  return digest.finish();
}

// The manifest that is wanted, of Docker's.
Result<Json> choose_docker(const Json& manifests, const std::string& name) {
  if (!manifests.is_array() || manifests.empty()) return wrong("its manifest.json has no image");
  if (manifests.size() == 1) return manifests.front();
  std::vector<std::string> names;
  for (const Json& each : manifests)
    for (const Json& tag : member(each, "RepoTags", Json::value_t::array)) {
      if (!tag.is_string()) continue;
      names.push_back(tag.get<std::string>());
      if (is_named(names.back(), name)) return each;
    }
  return several(names);
}

}  // namespace

Result<FoundImage> read_oci(const ImageFiles& files, const std::string& name) {
  MEMBRANE_ASSIGN(Json manifest, read_file(files, "index.json"));
  for (size_t depth = 0; manifest.is_object() && manifest.contains("manifests"); ++depth) {
    if (depth == kMostIndexes) return wrong("its indexes are nested too deep");
    MEMBRANE_ASSIGN(const Json chosen, choose(manifest, name));
    MEMBRANE_ASSIGN(manifest, read_descriptor(files, chosen));
  }
  FoundImage image;
  MEMBRANE_ASSIGN(const Json configuration,
                  read_descriptor(files, member(manifest, "config", Json::value_t::object)));
  MEMBRANE_ASSIGN(image.config, config_of(configuration));
  const Json& layers = member(manifest, "layers", Json::value_t::array);
  if (layers.size() > kMostLayers) return wrong("it has too many layers");
  for (const Json& each : layers) {
    MEMBRANE_ASSIGN(Blob layer, open_descriptor(files, each));
    image.layers.push_back(std::move(layer));
  }
  return image;
}

Result<FoundImage> read_docker(const ImageFiles& files, const std::string& name) {
  MEMBRANE_ASSIGN(const Json manifests, read_file(files, "manifest.json"));
  MEMBRANE_ASSIGN(const Json manifest, choose_docker(manifests, name));
  FoundImage image;
  MEMBRANE_ASSIGN(const Json configuration, read_file(files, text(manifest, "Config")));
  MEMBRANE_ASSIGN(image.config, config_of(configuration));
  const Json& layers = member(manifest, "Layers", Json::value_t::array);
  const Json& digests =
      member(member(configuration, "rootfs", Json::value_t::object), "diff_ids", Json::value_t::array);
  if (layers.size() > kMostLayers || layers.size() != digests.size())
    return wrong("it has more or fewer layers than its configuration says");
  for (size_t i = 0; i < layers.size(); ++i) {
    if (!layers[i].is_string() || !digests[i].is_string()) return wrong("a layer of it has no name");
    MEMBRANE_ASSIGN(Blob layer, files.open(layers[i].get<std::string>()));
    MEMBRANE_ASSIGN(const std::string digest, plain_digest_of(layer));
    if ("sha256:" + digest != digests[i].get<std::string>())
      return wrong("a layer of it has the digest sha256:" + digest + " and not " +
                   digests[i].get<std::string>());
    image.layers.push_back(std::move(layer));
  }
  return image;
}

}  // namespace membrane::linux
