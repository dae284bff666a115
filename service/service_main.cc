// membrane-service: the program that `membrane serve` executes.

#include <unistd.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <optional>
#include <utility>

#include "base/diagnostic.h"
#include "base/freed_memory.h"
#include "base/private_file.h"
#include "base/standard_files.h"
#include "base/user_directory.h"
#include "packages/provide.h"
#include "sandbox/session/language_templates.h"
#include "service/config.h"
#include "service/documents.h"
#include "service/e2b/e2b.h"
#include "service/front.h"
#include "service/hidden_variable.h"
#include "service/http_server.h"
#include "service/idempotency.h"
#include "service/image_files.h"
#include "service/ledger.h"
#include "service/linux_guests.h"
#include "service/mcp_interface.h"
#include "service/receipts.h"
#include "service/rest.h"
#include "service/times.h"
#include "worker/control_groups.h"
#include "worker/guests.h"

namespace membrane::service {
namespace {

constexpr int kExitRequest = 2, kExitMembrane = 3;
constexpr std::chrono::milliseconds kExpireEvery(250);
constexpr std::chrono::seconds kAnswerTime(2);  // for answers of execs that are cancelled at the end
constexpr std::chrono::seconds kKeepTime(5);    // for workers at the end, in addition to --drain

Level level_of(const std::string& name) {
  if (name == "debug") return Level::kDebug;
  if (name == "warning") return Level::kWarning;
  if (name == "error") return Level::kError;
  return name == "silent" ? Level::kSilent : Level::kInfo;
}

int complain(const Error& error) {
  std::fprintf(stderr, "membrane: %s\n", error.message.c_str());
  if (!error.hint.empty()) std::fprintf(stderr, "  hint: %s\n", error.hint.c_str());
  return error.code == ErrorCode::kInternal ? kExitMembrane : kExitRequest;
}

// Reports an invalid command line in the same words as the other commands.
int complain_of_usage(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return app.exit(error);
  Error shown{ErrorCode::kInvalidArgument, error.what(), "\"membrane serve --help\" lists the options."};
  const std::vector<std::string> unknown = app.remaining();
  const bool is_unknown =
      static_cast<CLI::ExitCodes>(error.get_exit_code()) == CLI::ExitCodes::ExtrasError && !unknown.empty();
  if (!is_unknown) return complain(shown);
  const std::string word = unknown.front().substr(0, unknown.front().find('='));
  shown.message = (word.starts_with('-') ? "unknown option " : "unexpected argument ") + word;
  std::vector<std::string> known;
  for (const CLI::Option* const option : app.get_options())
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  if (const std::string_view near = nearest(word, {known.begin(), known.end()}); !near.empty())
    shown.hint = "Did you mean " + std::string(near) + "? " + shown.hint;
  return complain(shown);
}

// Without TLS, anyone on the network path can read the tokens.
void warn_of_open_listener(const Config& config) {
  const bool is_loopback =
      config.listen.starts_with("127.") || config.listen == "::1" || config.listen == "localhost";
  if (is_loopback || !config.tls_certificate.empty()) return;
  std::fprintf(
      stderr,
      "membrane: warning: %s is reached from other machines without TLS: tokens and programs go over "
      "the network readable\n  hint: Give --tls-certificate and --tls-key, or put a proxy with TLS in "
      "front of --listen 127.0.0.1.\n",
      config.listen.c_str());
}

HttpServerOptions http_options(const Config& config) {
  HttpServerOptions options;
  options.address = config.listen;
  options.port = static_cast<uint16_t>(config.port);
  options.tls_certificate_file = config.tls_certificate;
  options.tls_key_file = config.tls_key;
  return options;
}

McpOptions mcp_options(const Config& config) {
  McpOptions options;
  options.hosts = config.mcp_hosts;
  options.hosts.push_back(config.listen.contains(':') ? "[" + config.listen + "]" : config.listen);
  options.origins = config.mcp_origins;
  return options;
}

// Returns the directory, created if missing, and closed to others.
Result<std::string> state_directory(const Config& config) {
  const std::string path = config.state.empty() ? user_path(UserDirectory::kState, "service") : config.state;
  if (path.empty())
    return fail(ErrorCode::kInvalidArgument, "there is no directory for the service's state",
                "Give --state DIRECTORY.");
  if (!make_directory(path)) return refused_by_system("make", path);
  MEMBRANE_TRY(check_private_directory(path, "the service's state"));
  return path;
}

// The parts that outlive the process. Each one uses those before it.
struct Kept {
  std::unique_ptr<Disk> disk;
  std::unique_ptr<DurableFiles> files;
  std::unique_ptr<State> state;
  std::unique_ptr<Images> images;
  std::unique_ptr<Audit> audit;
  std::unique_ptr<Tokens> tokens;
  std::string owner_token;

  static Result<Kept> open(const Config& config) {
    Kept kept;
    MEMBRANE_ASSIGN(const std::string directory, state_directory(config));
    kept.disk = disk_below(directory);
    kept.files = std::make_unique<DurableFiles>(*kept.disk);
    MEMBRANE_ASSIGN(kept.state, State::open(directory));  // first: it detects another running service
    MEMBRANE_TRY(kept.files->clean(""));
    MEMBRANE_ASSIGN(kept.images, ImageFiles::open(*kept.files));
    if (config.audit) {
      MEMBRANE_ASSIGN(kept.audit, Audit::open(*kept.disk));
    }
    MEMBRANE_ASSIGN(kept.tokens, Tokens::open(*kept.state));
    MEMBRANE_ASSIGN(kept.owner_token, membrane::service::owner_token(*kept.files));
    MEMBRANE_TRY(kept.tokens->add(
        kept.owner_token, {.id = kOwnerTokenId, .tenant = "owner", .name = "owner", .scopes = {"admin"}}));
    return kept;
  }
};

// What the previous service has promised to keep. Images that none of it refers to are deleted.
Status bring_back(Ledger& ledger, Snapshots& snapshots, Sandboxes& sandboxes, Images& images, Log& log) {
  MEMBRANE_ASSIGN(const std::vector<std::string> problems, snapshots.load());
  for (const std::string& problem : problems)
    log.write(Level::kError, "snapshot damaged", {{"why", std::string_view(problem)}});
  for (KeptSandbox& kept : ledger.take_kept())
    if (const Status adopted = sandboxes.adopt(kept); !adopted) ledger.lose(kept, adopted.error().message);
  images.sweep();
  return {};
}

// Loads the stored secrets. One that cannot be opened is an error if the operator supplied the key: it is the
// wrong one. Under the service's own key (`is_own`) it is reported and left as it is, until it is replaced or
// its key is supplied.
Result<std::unique_ptr<Secrets>> open_secrets(State& state, SecretKey key, bool is_own, Log& log) {
  MEMBRANE_ASSIGN(const std::vector<SecretRow> rows, state.secrets());
  const auto answer = [](const Status& done) -> Answer<void> {
    if (!done) return std::unexpected(disk_error(done.error()));
    return {};
  };
  auto secrets = std::make_unique<Secrets>(
      std::move(key),
      SecretKeeper{.put =
                       [&state, answer](const SealedSecret& row) {
                         return answer(state.put(SecretRow{row.tenant, row.info.name, row.sealed,
                                                           row.info.hosts, row.info.updated_at_ms}));
                       },
                   .remove =
                       [&state, answer](const std::string& tenant, const std::string& name) {
                         return answer(state.remove_secret(tenant, name));
                       }});
  for (const SecretRow& row : rows) {
    const Status loaded =
        secrets->load({row.tenant, {row.name, row.hosts, row.updated_at_ms}, row.ciphertext});
    if (loaded) continue;
    if (!is_own) return std::unexpected(loaded.error());
    log.write(
        Level::kError, "secret unavailable",
        {{"tenant", std::string_view(row.tenant)},
         {"name", std::string_view(row.name)},
         {"why", std::string_view("it is damaged, or sealed under another key: start the service with that "
                                  "one (--secrets-key), or put the secret again")}});
  }
  return secrets;
}

// `variable` is MEMBRANE_SECRETS_KEY.
Result<std::unique_ptr<Secrets>> secrets_of(const Config& config, HiddenVariable& variable, const Kept& kept,
                                            Log& log) {
  const std::string text = variable.take();
  const bool is_own = config.secrets_key.empty() && text.empty();
  MEMBRANE_ASSIGN(SecretKey key, !config.secrets_key.empty() ? SecretKey::read(config.secrets_key)
                                 : is_own                    ? SecretKey::kept(*kept.files)
                                                             : SecretKey::parse(text));
  return open_secrets(*kept.state, std::move(key), is_own, log);
}

// A wall that is missing, and that was not accepted by name.
Status check_walls(worker::Zygote& zygote, const std::vector<std::string>& accepted) {
  MEMBRANE_ASSIGN(const auto worker, zygote.spawn());
  for (const auto& [name, why] : worker->raise_walls({}).missing)
    if (std::ranges::find(accepted, name) == accepted.end())
      return fail(ErrorCode::kUnsupported, "this machine cannot raise the wall " + name + ": " + why,
                  "membrane doctor says more; --accept-missing-wall " + name + " starts without it.");
  if (worker->is_alive()) return {};
  return fail(ErrorCode::kUnsupported, "a worker does not start: " + worker->problem(),
              "See membrane doctor.");
}

worker::ControlLimits control_limits(const Config& config, bool has_computers) {
  constexpr uint64_t kMore = 256, kOfComputers = 1u << 15;
  const uint64_t machine_bytes =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return {
      .memory_bytes = config.workers_memory_bytes != 0 ? config.workers_memory_bytes : machine_bytes / 4 * 3,
      .processes = config.workers_processes != 0
                       ? config.workers_processes
                       : config.sandboxes + config.ready_workers + kMore + (has_computers ? kOfComputers : 0),
      .cpu_percent = config.workers_cpu_percent};
}

// Workers and kernel processes that are forked from now on are in the group.
worker::ControlGroups bound_workers(const Config& config, const worker::Zygote& zygote,
                                    const linux::ComputerSource* computers, Log& log) {
  std::vector<pid_t> processes = {zygote.process()};
  if (computers != nullptr) processes.push_back(computers->process());
  worker::ControlGroups groups =
      worker::ControlGroups::make(control_limits(config, computers != nullptr), processes);
  std::string missing = groups.missing();
  for (const pid_t process : processes)
    if (const Status added = groups.add(process); !added)
      missing += (missing.empty() ? "" : "; ") + added.error().message;
  std::string bounded;
  for (const std::string& each : groups.bounded()) bounded += (bounded.empty() ? "" : " ") + each;
  log.write(missing.empty() ? Level::kInfo : Level::kWarning, "control group",
            {{"bounds", std::string_view(bounded)}, {"missing", std::string_view(missing)}});
  return groups;
}

// Creates Linux sandboxes; none, with the reason, if this machine cannot. Call it while there is one thread.
struct LinuxSource {
  std::unique_ptr<linux::ComputerSource> source;
  std::string why_none;

  static LinuxSource start(const Config& config) {
#ifdef MEMBRANE_WITHOUT_LINUX  // in a build with a sanitizer
    static_cast<void>(config);
    return {nullptr, "a sanitizer makes calls that the kernel process may not make"};
#else
    // Without an image, none is created.
    const size_t most_ready = stored_images()->list().empty() ? 0 : config.ready_computers;
    auto source = linux::ComputerSource::create(most_ready);
    if (source) return {*std::move(source), ""};
    return {nullptr, source.error().message};
#endif
  }
};

// `zygote` was started before everything else. `groups` gets those of the workers, for as long as the zygote
// lives.
Status serve(const Config& config, const std::shared_ptr<worker::Zygote>& zygote, LinuxSource computers,
             HiddenVariable& secrets_key, std::optional<worker::ControlGroups>& groups) {
  Log log(stderr, level_of(config.log_level));
  groups.emplace(bound_workers(config, *zygote, computers.source.get(), log));
  if (computers.source != nullptr) computers.source->make_ready();
  MEMBRANE_TRY(check_walls(*zygote, config.accepted_walls));
  MEMBRANE_ASSIGN(const Kept kept, Kept::open(config));
  Metrics metrics;
  MEMBRANE_ASSIGN(const auto ledger,
                  Ledger::open({*kept.state, *kept.tokens, metrics, kept.audit.get(), log}, config.quotas));
  const auto guests = with_linux_guests(
      local_guests(
          {.cache_directory = sandbox::LanguageTemplates::default_cache_directory(),
           .packages_cache_directory = config.packages ? packages::default_cache_directory() : std::string(),
           .where = worker::Guests(zygote, config.ready_workers)}),
      std::move(computers.source), stored_images(), computers.why_none);
  Snapshots snapshots(*kept.images, *guests, kept.state.get());
  MEMBRANE_ASSIGN(const auto receipts, Receipts::open(*kept.files, *kept.state, *kept.images));
  ledger->on_forgotten([&receipts](const std::string& sandbox) { receipts->forget(sandbox); });
  MEMBRANE_ASSIGN(const auto secrets, secrets_of(config, secrets_key, kept, log));
  MEMBRANE_ASSIGN(const auto idempotency, Idempotency::open(*kept.state));
  MEMBRANE_ASSIGN(Operations operations, Operations::read(kOpenApiDocument, kReportSchema));
  std::unique_ptr<Traces> traces;
  if (!config.traces.empty()) {
    MEMBRANE_ASSIGN(traces, Traces::start(config.traces, log));
  }
  auto sandboxes = std::make_unique<Sandboxes>(
      *guests, *kept.images, snapshots,
      SandboxesOptions{
          .threads = config.threads,
          .most_sandboxes = config.sandboxes,
          .usual_ttl_s = config.usual_ttl_s,
          .most_ttl_s = config.most_ttl_s,
          .park_after_ms = config.park_after_ms,
          .most_resident = config.resident,
          .secrets_of = [&secrets](const std::string& tenant,
                                   const policy::Policy& policy) { return secrets->of(tenant, policy); },
          .watcher = ledger.get(),
          .receipts = receipts.get(),
          .watch_egress =
              [&traces](const std::string& trace) {
                return traces ? trace_egress(*traces, trace) : nullptr;
              }});
  MEMBRANE_TRY(bring_back(*ledger, snapshots, *sandboxes, *kept.images, log));
  MEMBRANE_ASSIGN(
      const auto rest,
      Rest::make(
          std::move(operations), *sandboxes, *kept.tokens, *secrets,
          {.ledger = *ledger, .metrics = metrics, .idempotency = *idempotency, .audit = kept.audit.get()}));
  e2b::E2b for_e2b(*sandboxes, *kept.tokens);
  auto mcp = std::make_unique<McpInterface>(*sandboxes, *kept.tokens, mcp_options(config));
  Front front({&for_e2b, mcp.get(), rest.get()}, log, &metrics, traces.get());
  MEMBRANE_ASSIGN(const auto server, HttpServer::listen(http_options(config), front));

  const auto settle = [&] {
    ledger->flush();
    if (kept.audit) static_cast<void>(kept.audit->sync());
  };
  auto drained_at = std::chrono::steady_clock::now();  // at the latest
  bool is_draining = false;
  const auto drain = [&] {
    if (std::exchange(is_draining, true)) return;
    log.write(Level::kInfo, "draining");
    drained_at = std::chrono::steady_clock::now() + std::chrono::seconds(config.drain_s);
    server->drain({.patience = std::chrono::seconds(config.drain_s),
                   .hurry = [&] { sandboxes->cancel_execs(); },
                   .last_patience = kAnswerTime,
                   .holds = true});
    sandboxes->drain([&] { server->release(); });
  };
  // Then no sandbox can be created, and the supervisor of the service should restart it.
  bool is_without_zygote = false;
  server->every(kExpireEvery, [&] {
    if (!zygote->is_alive() && !std::exchange(is_without_zygote, true)) drain();
    sandboxes->expire();
    sandboxes->park_idle();
    settle();
  });
  server->on_signal(drain);

  const std::string host = config.listen.contains(':') ? "[" + config.listen + "]" : config.listen;
  const std::string url =
      (server->has_tls() ? "https://" : "http://") + host + ":" + std::to_string(server->port());
  std::printf("url %s\ntoken %s\n", url.c_str(), kept.owner_token.c_str());
  std::fflush(stdout);
  log.write(Level::kInfo, "listening", {{"url", url}});
  server->run();
  // Running execs end and sandboxes are saved while everything that their answers pass through still exists.
  mcp = nullptr;
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(drained_at + kKeepTime - std::chrono::steady_clock::now());
  const auto end_workers = [&] { zygote->kill(); };
  if (const size_t lost = sandboxes->keep_all(
          std::max<std::chrono::milliseconds>(left, kKeepTime - kAnswerTime), end_workers))
    log.write(Level::kWarning, "sandboxes lost", {{"count", static_cast<int64_t>(lost)}});
  end_workers();  // nothing is kept of what they do still, and nobody waits for one that hangs
  sandboxes = nullptr;
  settle();
  log.write(Level::kInfo, "stopped");
  if (is_without_zygote)
    return fail(ErrorCode::kInternal, "the process that makes workers has ended",
                "Start the service again: what could be kept is there.");
  return {};
}

}  // namespace
}  // namespace membrane::service

int main(int argc, char** argv) {
  using namespace membrane::service;
  membrane::open_standard_files();
  std::signal(SIGPIPE, SIG_IGN);
  CLI::App app("Serves sandboxes over HTTP: REST with server-sent events.", "membrane serve");
  app.set_version_flag("--version", "membrane-service " MEMBRANE_VERSION);
  app.footer(
      "Prints its URL and its owner's token, a line each; the token is the same at the next start.\n\n"
      "Example:\n  membrane serve --port 7400\n"
      "  curl -H \"Authorization: Bearer $TOKEN\" http://127.0.0.1:7400/v1/sandboxes --json "
      "'{\"template\":\"python\"}'");
  Config config;
  std::string config_file;
  add_flags(app, config);
  app.add_option("--config", config_file, "Settings: membrane.toml (docs/service.md); flags count more")
      ->type_name("FILE");
  // While there is one thread, and no secret in memory.
  HiddenVariable secrets_key("MEMBRANE_SECRETS_KEY");
  std::optional<membrane::worker::ControlGroups> groups;  // destroyed after the processes in them have ended
  const auto zygote = membrane::worker::Zygote::start();
  if (!zygote) return complain(zygote.error());
  membrane::map_large_blocks();  // outputs, files and snapshots are large and short-lived
  try {
    app.parse(argc, argv);
    if (!config_file.empty()) {
      // Applied again, to override the file.
      config = {};
      if (const membrane::Status read = read_config_file(config_file, config); !read)
        return complain(read.error());
      app.parse(argc, argv);
    }
  } catch (const CLI::ParseError& error) {
    return complain_of_usage(app, error);
  }
  warn_of_open_listener(config);
  const membrane::Status served = serve(config, *zygote, LinuxSource::start(config), secrets_key, groups);
  return served ? 0 : complain(served.error());
}
