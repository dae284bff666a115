#include "service/kept_record.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "computers/network/authority.h"

namespace membrane::service {
namespace {

using Json = nlohmann::json;

std::unexpected<Error> damaged(const char* what) {
  return fail(ErrorCode::kInvalidInput, std::string("a stored record is damaged: ") + what,
              "Restore the directory of the service's state from a backup.");
}

// -- members, each of which must be there

bool read(const Json& of, const char* name, std::string& value) {
  const auto found = of.find(name);
  if (found == of.end() || !found->is_string()) return false;
  value = found->get<std::string>();
  return true;
}
template <typename Number>
bool read(const Json& of, const char* name, Number& value) {
  const auto found = of.find(name);
  if (found == of.end() || !found->is_number_integer()) return false;
  value = found->get<Number>();
  return true;
}
// Calls each() for every element of an array until it returns false.
template <typename Each>
bool read_list(const Json& of, const char* name, Each each) {
  const auto found = of.find(name);
  return found != of.end() && found->is_array() && std::ranges::all_of(*found, [&](const Json& element) {
           return element.is_object() && each(element);
         });
}

Json json_of(const KeptGuest& guest) {
  Json images = Json::array();
  for (const KeptImage& image : guest.images)
    images.push_back({{"context", image.context},
                      {"template", image.template_name},
                      {"hash", image.hash},
                      {"size_bytes", image.size_bytes},
                      {"seal", image.seal_hash}});
  return {{"template", guest.spec.template_name},
          {"seals", guest.spec.seals},
          {"policy", policy::to_json(guest.spec.policy)},
          {"environment", guest.spec.environment},
          {"images", std::move(images)}};
}

Status read_guest(const Json& json, KeptGuest& guest) {
  std::string policy;
  if (!read(json, "template", guest.spec.template_name) || !read(json, "policy", policy))
    return damaged("its template or its policy");
  guest.spec.authority = std::make_shared<computers::Authority>();
  MEMBRANE_ASSIGN(guest.spec.policy, policy::parse_policy(policy, "policy.json"));
  const auto environment = json.find("environment");
  if (environment == json.end() || !environment->is_object()) return damaged("its environment");
  for (const auto& [name, value] : environment->items()) {
    if (!value.is_string()) return damaged("its environment");
    guest.spec.environment.emplace(name, value.get<std::string>());
  }
  const bool has_images = read_list(json, "images", [&](const Json& each) {
    KeptImage& image = guest.images.emplace_back();
    return read(each, "context", image.context) && read(each, "template", image.template_name) &&
           read(each, "hash", image.hash) && read(each, "size_bytes", image.size_bytes) &&
           (!each.contains("seal") || read(each, "seal", image.seal_hash));
  });
  // Older records lack both.
  if (const auto seals = json.find("seals"); seals != json.end() && seals->is_boolean())
    guest.spec.seals = seals->get<bool>();
  return has_images ? Status() : damaged("its images");
}

Result<Json> parsed(std::string_view text) {
  auto json = read_json(text);
  if (!json || !json->is_object()) return damaged("it is not a JSON object");
  return *std::move(json);
}

}  // namespace

std::string record_of(const KeptGuest& guest) { return json_text(json_of(guest)); }

Result<KeptGuest> read_guest_record(std::string_view text) {
  MEMBRANE_ASSIGN(const Json json, parsed(text));
  KeptGuest guest;
  MEMBRANE_TRY(read_guest(json, guest));
  return guest;
}

std::string record_of(const KeptSandbox& sandbox) {
  Json json = json_of(sandbox.guest);
  json["ttl_s"] = sandbox.ttl_s;
  json["version"] = sandbox.info.version;
  json["memory_bytes"] = sandbox.memory_bytes;
  json["egress_bytes"] = sandbox.egress_bytes;
  json["forks"] = sandbox.forks;
  json["execs"] = sandbox.info.execs;
  json["parent"] = sandbox.info.parent;
  Json& contexts = json["contexts"] = Json::array();
  for (const ContextInfo& context : sandbox.contexts)
    contexts.push_back(
        {{"id", context.id}, {"template", context.template_name}, {"created_at_ms", context.created_at_ms}});
  return json_text(json);
}

Status read_sandbox_record(std::string_view text, KeptSandbox& sandbox) {
  MEMBRANE_ASSIGN(const Json json, parsed(text));
  MEMBRANE_TRY(read_guest(json, sandbox.guest));
  if (!read(json, "ttl_s", sandbox.ttl_s) || !read(json, "version", sandbox.info.version) ||
      !read(json, "memory_bytes", sandbox.memory_bytes) ||
      !read(json, "egress_bytes", sandbox.egress_bytes) || !read(json, "forks", sandbox.forks) ||
      !read(json, "execs", sandbox.info.execs) || !read(json, "parent", sandbox.info.parent))
    return damaged("its numbers");
  const bool has_contexts = read_list(json, "contexts", [&](const Json& each) {
    ContextInfo& context = sandbox.contexts.emplace_back();
    return read(each, "id", context.id) && read(each, "template", context.template_name) &&
           read(each, "created_at_ms", context.created_at_ms);
  });
  return has_contexts ? Status() : damaged("its contexts");
}

std::vector<std::string> hashes_of(const KeptGuest& guest) {
  std::vector<std::string> hashes;
  for (const KeptImage& image : guest.images) {
    hashes.push_back(image.hash);
    if (!image.seal_hash.empty()) hashes.push_back(image.seal_hash);
  }
  return hashes;
}

}  // namespace membrane::service
