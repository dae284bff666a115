// The configuration of a service: membrane.toml, and the flags of `membrane serve`, which override it. One
// list of settings defines both.
//
// Threads: values.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "service/quotas.h"

namespace membrane::service {

struct Config {
  std::string listen = "127.0.0.1";
  uint64_t port = 7400;
  std::string tls_certificate, tls_key;
  std::string state;  // "": the user's own (base/user_directory.h)
  uint64_t threads = 8;
  uint64_t sandboxes = 10'000;
  uint64_t usual_ttl_s = 3'600, most_ttl_s = 30ull * 24 * 3'600;
  uint64_t drain_s = 10;
  uint64_t ready_workers = 4;
  uint64_t ready_computers = 1;       // kernel processes of Linux sandboxes kept ready
  uint64_t workers_memory_bytes = 0;  // for all workers together; 0: three quarters of the machine's memory
  uint64_t workers_processes = 0;     // the same; 0: as many as sandboxes and ready workers, plus some
  uint64_t workers_cpu_percent = 0;   // of one processor; 0: no limit
  uint64_t park_after_ms = 5'000;     // 0: only when the service ends
  uint64_t resident = 256;
  std::vector<std::string> accepted_walls = {};
  std::string log_level = "info";
  bool audit = true;
  std::string secrets_key;  // a file; "": MEMBRANE_SECRETS_KEY, else the service's own
  bool packages = false;    // whether pip and npm find packages for sandboxes
  std::string traces;       // "": none are sent
  std::vector<std::string> mcp_hosts = {}, mcp_origins = {};  // besides those of loopback
  Quotas quotas;                                              // of each tenant whose tokens name none
};

using Member = std::variant<std::string Config::*, uint64_t Config::*, bool Config::*,
                            std::vector<std::string> Config::*, std::optional<uint64_t> Quotas::*>;

struct Setting {
  std::string_view key;   // "server.port"
  std::string_view flag;  // "--port"; "" for none
  std::string_view unit;  // of the value, for the help: "PORT"; "" for a switch
  Member member;
  uint64_t least = 0, most = 0;  // of numbers
  std::string_view help;
};
std::span<const Setting> settings();

// Applies the text's settings to `config`. Errors: kInvalidInput, with the line, and a hint for an unknown
// key.
Status read_config(std::string_view toml, Config& config);
// The same for a file; kNotFound, kUnavailable.
Status read_config_file(const std::string& path, Config& config);
// Each flag writes into `config`, which must outlive `app`.
void add_flags(CLI::App& app, Config& config);

}  // namespace membrane::service
