#include "linux/image/config.h"

#include <algorithm>

#include "base/json.h"

namespace membrane::linux {
namespace {

constexpr JsonLimits kLimits = {.bytes = 1u << 20, .depth = 16, .values = 20'000, .memory_bytes = 16u << 20};

std::unexpected<Error> wrong(const char* member) {
  return fail(ErrorCode::kInvalidInput,
              std::string("the image's configuration has a wrong \"") + member + '"');
}

bool has_zero(const std::string& text) { return text.find('\0') != text.npos; }

Status read_words(const nlohmann::json& object, const char* member, std::vector<std::string>& to) {
  const auto found = object.find(member);
  if (found == object.end() || found->is_null()) return {};
  if (!found->is_array()) return wrong(member);
  for (const auto& each : *found) {
    if (!each.is_string()) return wrong(member);
    to.push_back(each.get<std::string>());
    if (has_zero(to.back())) return wrong(member);
  }
  return {};
}

Status read_word(const nlohmann::json& object, const char* member, std::string& to) {
  const auto found = object.find(member);
  if (found == object.end() || found->is_null()) return {};
  if (!found->is_string()) return wrong(member);
  to = found->get<std::string>();
  return has_zero(to) ? wrong(member) : Status();
}

Status read_labels(const nlohmann::json& object, ImageConfig& config) {
  if (const auto labels = object.find("Labels"); labels != object.end() && !labels->is_null()) {
    if (!labels->is_object()) return wrong("Labels");
    for (const auto& [name, value] : labels->items()) {
      if (!value.is_string()) return wrong("Labels");
      config.labels[name] = value.get<std::string>();
    }
  }
  if (const auto ports = object.find("ExposedPorts"); ports != object.end() && !ports->is_null()) {
    if (!ports->is_object()) return wrong("ExposedPorts");
    for (const auto& [name, value] : ports->items()) config.ports.insert(name);
  }
  return {};
}

}  // namespace

Result<ImageConfig> read_image_config(std::string_view json) {
  ImageConfig config;
  if (json.empty()) return config;
  MEMBRANE_ASSIGN(const nlohmann::json object, read_json(json, "the image's configuration", kLimits));
  if (!object.is_object())
    return fail(ErrorCode::kInvalidInput, "the image's configuration is not a JSON object");
  MEMBRANE_TRY(read_words(object, "Env", config.environment));
  MEMBRANE_TRY(read_words(object, "Entrypoint", config.entrypoint));
  MEMBRANE_TRY(read_words(object, "Cmd", config.command));
  MEMBRANE_TRY(read_word(object, "WorkingDir", config.directory));
  MEMBRANE_TRY(read_word(object, "User", config.user));
  MEMBRANE_TRY(read_words(object, "Shell", config.shell));
  MEMBRANE_TRY(read_labels(object, config));
  std::erase_if(config.environment, [](const std::string& each) { return each.find('=') == each.npos; });
  return config;
}

std::string image_config_text(const ImageConfig& config) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  object["Env"] = config.environment;
  object["Entrypoint"] = config.entrypoint;
  object["Cmd"] = config.command;
  object["WorkingDir"] = config.directory;
  object["User"] = config.user;
  if (!config.shell.empty()) object["Shell"] = config.shell;
  if (!config.labels.empty()) object["Labels"] = config.labels;
  for (const std::string& port : config.ports)
    object["ExposedPorts"][port] = nlohmann::ordered_json::object();
  return json_text(object);
}

}  // namespace membrane::linux
