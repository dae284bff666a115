#include "service/config.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <utility>
#include <vector>

#include "policy/document.h"

namespace membrane::service {
namespace {

constexpr uint64_t kMostQuota = 1'000'000'000'000'000'000;
constexpr uint64_t kMostSeconds = 30ull * 24 * 3'600;

const Setting kSettings[] = {
    {"server.listen", "--listen", "ADDRESS", &Config::listen, 0, 0,
     "The address to listen on (default: 127.0.0.1)"},
    {"server.port", "--port", "PORT", &Config::port, 0, 65'535,
     "The port (default: 7400); 0: any that is free"},
    {"server.tls_certificate", "--tls-certificate", "FILE", &Config::tls_certificate, 0, 0,
     "Serve HTTPS: the certificate and its chain, PEM"},
    {"server.tls_key", "--tls-key", "FILE", &Config::tls_key, 0, 0, "The certificate's private key, PEM"},
    {"server.drain_s", "--drain", "S", &Config::drain_s, 0, 86'400,
     "How long execs may run on when the service is stopped, in seconds (default: 10)"},
    {"state.directory", "--state", "DIRECTORY", &Config::state, 0, 0,
     "Where the service stores its state (default: $XDG_STATE_HOME/membrane/service)"},
    {"sandboxes.threads", "--threads", "N", &Config::threads, 1, 1'024,
     "How many execs run at once; one tenant gets at most three quarters of them (default: 8)"},
    {"sandboxes.most", "--sandboxes", "N", &Config::sandboxes, 1, 1'000'000,
     "How many sandboxes may exist at once (default: 10000)"},
    {"sandboxes.usual_ttl_s", "--ttl", "S", &Config::usual_ttl_s, 1, kMostSeconds,
     "The default time to live of a sandbox, in seconds (default: 3600)"},
    {"sandboxes.most_ttl_s", "", "S", &Config::most_ttl_s, 1, kMostSeconds,
     "The longest time to live that a request may set, in seconds"},
    {"sandboxes.park_after_ms", "--park-after", "MS", &Config::park_after_ms, 0, kMostSeconds * 1'000,
     "Milliseconds until an unused sandbox gives up its process, until its next use (default: 5000); 0: "
     "never"},
    {"sandboxes.resident", "--resident", "N", &Config::resident, 1, 1'000'000,
     "How many sandboxes keep a process of their own at once; above it the longest unused give theirs up "
     "(default: 256)"},
    {"workers.ready", "--ready-workers", "N", &Config::ready_workers, 0, 1'024,
     "Workers that wait for a sandbox (default: 4)"},
    {"workers.ready_linux", "--ready-linux", "N", &Config::ready_computers, 0, 64,
     "Kernel processes of Linux sandboxes that wait ready (default: 1)"},
    {"workers.memory_bytes", "", "N", &Config::workers_memory_bytes, 1u << 28, uint64_t{1} << 50,
     "The memory of all workers and Linux sandboxes together, where there is a control group"},
    {"workers.processes", "", "N", &Config::workers_processes, 16, 10'000'000,
     "The most workers, and processes of Linux sandboxes, at once, where there is a control group"},
    {"workers.cpu_percent", "", "N", &Config::workers_cpu_percent, 1, 1'000'000,
     "The processors' time of all workers, in percent of one, where there is a control group"},
    {"workers.accepted_missing_walls", "--accept-missing-wall", "NAME", &Config::accepted_walls, 0, 0,
     "Start without this wall of workers, which the machine does not have; may be repeated (membrane doctor "
     "names them)"},
#define X(id, name, sentence) {"quotas." name, "", "N", &Quotas::id, 0, kMostQuota, sentence},
#include "service/quotas.def"
#undef X
    {"log.level", "--log-level", "LEVEL", &Config::log_level, 0, 0,
     "The log level on standard error: debug, info, warning, error or silent (default: info)"},
    {"sandboxes.packages", "--packages", "", &Config::packages, 0, 0,
     "Let sandboxes be made with packages of PyPI and npm: this machine's pip and npm find them"},
    {"secrets.key", "--secrets-key", "FILE", &Config::secrets_key, 0, 0,
     "The key that seals secrets, 64 hexadecimal digits; else the variable MEMBRANE_SECRETS_KEY has it; else "
     "it is secrets.key of the state's directory, which the service makes"},
    {"audit.enabled", "", "BOOL", &Config::audit, 0, 0, "Whether audit.log is written (default: true)"},
    {"mcp.hosts", "", "NAME", &Config::mcp_hosts, 0, 0,
     "Host names by which clients of /mcp call this service, besides localhost and the address it listens "
     "on"},
    {"mcp.origins", "", "URL", &Config::mcp_origins, 0, 0,
     "Pages that may use /mcp from a browser, besides those of this machine: https://chat.example.org"},
    {"traces.endpoint", "--traces", "URL", &Config::traces, 0, 0,
     "Send traces to this URL, as OTLP in JSON over HTTP: http://127.0.0.1:4318/v1/traces"},
};

std::unexpected<Error> wrong(const policy::Node& node, const std::string& message, std::string hint) {
  return fail(ErrorCode::kInvalidInput, "line " + std::to_string(node.line) + ": " + message,
              std::move(hint));
}

// The largest edit distance for a hint, for short words.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t corner = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t here = std::min({row[j] + 1, row[j - 1] + 1, corner + (a[i - 1] == b[j - 1] ? 0 : 1)});
      corner = std::exchange(row[j], here);
    }
  }
  return row.back();
}

// For a misplaced key: the table that has a key of this name, or "".
std::string table_hint(const std::string& name) {
  for (const Setting& each : kSettings) {
    const size_t dot = each.key.find('.');
    if (each.key.substr(dot + 1) == name)
      return "Write it in its table: [" + std::string(each.key.substr(0, dot)) +
             "] on a line, and below it " + name + " = ….";
  }
  return "";
}

std::string hint_for(std::string_view key) {
  constexpr size_t kMostLetters = 64;
  const Setting* nearest = &kSettings[0];
  for (const Setting& each : kSettings)
    if (key.size() <= kMostLetters && distance(key, each.key) < distance(key, nearest->key)) nearest = &each;
  const size_t dot = nearest->key.find('.');
  return "There is " + std::string(nearest->key.substr(dot + 1)) + " in [" +
         std::string(nearest->key.substr(0, dot)) + "]; docs/service.md lists all.";
}

Status check_text(const Setting& setting, const std::string& text, const std::string& where) {
  if (setting.key != "log.level") return {};
  constexpr std::string_view kLevels[] = {"debug", "info", "warning", "error", "silent"};
  if (std::ranges::find(kLevels, text) != std::end(kLevels)) return {};
  return fail(ErrorCode::kInvalidInput, where + "log.level is not a level",
              "Use debug, info, warning, error or silent.");
}

Status set(const Setting& setting, const policy::Node& node, Config& config) {
  const std::string key(setting.key);
  const auto not_of_type = [&](const char* type) {
    return wrong(node, key + " is " + std::string(policy::type_of(node)), std::string("Give ") + type + ".");
  };
  if (const auto* const text = std::get_if<std::string Config::*>(&setting.member)) {
    const auto* const value = std::get_if<std::string>(&node.value);
    if (value == nullptr) return not_of_type("a string");
    MEMBRANE_TRY(check_text(setting, *value, "line " + std::to_string(node.line) + ": "));
    config.*(*text) = *value;
    return {};
  }
  if (const auto* const flag = std::get_if<bool Config::*>(&setting.member)) {
    const auto* const value = std::get_if<bool>(&node.value);
    if (value == nullptr) return not_of_type("true or false");
    config.*(*flag) = *value;
    return {};
  }
  if (const auto* const list = std::get_if<std::vector<std::string> Config::*>(&setting.member)) {
    const auto* const values = std::get_if<policy::Array>(&node.value);
    if (values == nullptr) return not_of_type("an array of strings");
    (config.*(*list)).clear();
    for (const policy::Node& each : *values) {
      const auto* const text = std::get_if<std::string>(&each.value);
      if (text == nullptr) return not_of_type("an array of strings");
      (config.*(*list)).push_back(*text);
    }
    return {};
  }
  uint64_t number = 0;
  if (const auto* const whole = std::get_if<int64_t>(&node.value); whole != nullptr && *whole >= 0)
    number = static_cast<uint64_t>(*whole);
  else if (const auto* const large = std::get_if<uint64_t>(&node.value)) number = *large;
  else return not_of_type("a whole number");
  if (number < setting.least || number > setting.most)
    return wrong(node, key + " is " + std::to_string(number),
                 "Give " + std::to_string(setting.least) + " to " + std::to_string(setting.most) + ".");
  if (const auto* const member = std::get_if<uint64_t Config::*>(&setting.member)) config.*(*member) = number;
  else config.quotas.*std::get<std::optional<uint64_t> Quotas::*>(setting.member) = number;
  return {};
}

}  // namespace

std::span<const Setting> settings() { return kSettings; }

Status read_config(std::string_view toml, Config& config) {
  MEMBRANE_ASSIGN(const policy::Node root, policy::parse_toml(toml));
  for (const policy::Entry& table : std::get<policy::Table>(root.value)) {
    const auto* const entries = std::get_if<policy::Table>(&table.value.value);
    if (entries == nullptr) {
      const std::string hint = table_hint(table.name);
      return wrong(table.value, "\"" + table.name + "\" is in no table",
                   hint.empty() ? hint_for(table.name) : hint);
    }
    for (const policy::Entry& entry : *entries) {
      const std::string key = table.name + "." + entry.name;
      const auto* const found = std::ranges::find(kSettings, key, &Setting::key);
      if (found == std::end(kSettings))
        return wrong(entry.value, "there is no setting " + key, hint_for(key));
      MEMBRANE_TRY(set(*found, entry.value, config));
    }
  }
  if (config.usual_ttl_s > config.most_ttl_s)
    return fail(ErrorCode::kInvalidInput, "sandboxes.usual_ttl_s is more than sandboxes.most_ttl_s");
  return {};
}

Status read_config_file(const std::string& path, Config& config) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(ErrorCode::kNotFound, "cannot read " + path, "Give an existing file to --config.");
  std::ostringstream text;
  text << file.rdbuf();
  Status read = read_config(text.str(), config);
  if (!read) read.error().message = path + ": " + read.error().message;
  return read;
}

void add_flags(CLI::App& app, Config& config) {
  for (const Setting& setting : kSettings) {
    if (setting.flag.empty()) continue;
    const std::string flag(setting.flag), help(setting.help);
    CLI::Option* option = nullptr;
    if (const auto* const text = std::get_if<std::string Config::*>(&setting.member))
      option = app.add_option(flag, config.*(*text), help)->take_last();
    else if (const auto* const list = std::get_if<std::vector<std::string> Config::*>(&setting.member))
      option = app.add_option(flag, config.*(*list), help)->expected(1)->take_all()->allow_extra_args(false);
    else if (const auto* const number = std::get_if<uint64_t Config::*>(&setting.member))
      option = app.add_option(flag, config.*(*number), help)
                   ->take_last()
                   ->check(CLI::Range(setting.least, setting.most).description(""));
    else if (const auto* const is_on = std::get_if<bool Config::*>(&setting.member))
      option = app.add_flag(flag, config.*(*is_on), help);
    else continue;
    if (setting.key == "log.level")
      option->check(CLI::IsMember({"debug", "info", "warning", "error", "silent"}).description(""));
    if (!setting.unit.empty()) option->type_name(std::string(setting.unit));
  }
}

}  // namespace membrane::service
