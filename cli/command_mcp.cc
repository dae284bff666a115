// membrane mcp: the tools of the Model Context Protocol, over standard input and output.

#include <atomic>
#include <csignal>
#include <optional>
#include <thread>

#include "agent/model/model_client.h"
#include "cli/cli.h"
#include "cli/linux_run.h"
#include "cli/package_options.h"
#include "cli/seal.h"
#include "computers/computer_session.h"
#include "computers/settings.h"
#include "linux/image/store.h"
#include "mcp/local_backend.h"
#include "mcp/server.h"
#include "mcp/stdio.h"
#include "policy/quantity.h"
#include "sandbox/session/language_templates.h"

namespace membrane::cli {
namespace {

std::atomic<bool> stopped = false;

struct Options {
  bool in_process = false;
  std::string tier = "auto";
  std::string most_sessions = "16";
  std::string image;  // for Linux sandboxes; "" for the default
  PolicyOptions policy;
};

Result<size_t> sessions_of(const Options& options) {
  constexpr uint64_t kMost = 10'000;
  const auto count = policy::parse_count(options.most_sessions);
  if (!count || *count == 0 || *count > kMost)
    return fail(ErrorCode::kInvalidArgument,
                "--max-sessions " + options.most_sessions + " is not a number of sessions",
                "Use a number from 1 to " + std::to_string(kMost) + ".");
  return static_cast<size_t>(*count);
}

// Languages that are installed while the server runs need a restart.
mcp::LocalOptions local_options(const Options& options, sandbox::LanguageTemplates& languages,
                                const PackageOptions& packages) {
  mcp::LocalOptions local;
  local.languages = mcp::installed_languages();
  local.open = [&](const std::string& package,
                   std::string_view program) -> Result<std::shared_ptr<const sandbox::Template>> {
    MEMBRANE_ASSIGN(auto opened,
                    program.empty() ? languages.open_for_session(package) : languages.open(package, program));
    MEMBRANE_ASSIGN(const policy::Policy policy, options.policy.policy(policy::language_limits()));
    return packages.provide(std::move(opened), policy, options.policy.file, &stopped);
  };
  return local;
}

// Scripts in Linux sandboxes, if there is an image and the machine supports them. A named image must exist.
Status add_computers(const Options& options, mcp::LocalOptions& local) {
  const auto image = find_image_or_usual(options.image);
  const auto policy = options.policy.policy(computers::usual_limits());
  const auto check = [&]() -> Status {
    if (!image) return std::unexpected(image.error());
    if (!policy) return std::unexpected(policy.error());
    MEMBRANE_TRY(computers::check_grants(*policy));
    return computers::check_limits(policy->limits);
  };
  if (const Status checked = check(); !checked) return options.image.empty() ? Status() : checked;
  auto source = linux::ComputerSource::create(0);
  if (!source) return options.image.empty() ? Status() : std::unexpected(source.error());
  computers::ComputerSessionOptions of;
  of.source = *std::move(source);
  of.spec.image = image->path;
  of.spec.limits = computers::limits_of(policy->limits);
  of.spec.platform = policy->platform;
  of.limits = policy->limits;
  of.grants = policy->http;
  of.directories = policy->fs;
  of.environment = computers::environment_of(image->config);
  of.directory = computers::directory_of(image->config);
  local.open_computer = [of] { return computers::computer_session(of); };
  local.languages.push_back(
      {{std::string(mcp::kComputer), "Linux (a script of bash)", true}, std::string(mcp::kComputer), ""});
  return {};
}

Result<int> run(const Options& options) {
  MEMBRANE_ASSIGN(const worker::Guests guests, take_guests(options.in_process));
  MEMBRANE_ASSIGN(const engine::Tier tier, tier_of(options.tier));
  MEMBRANE_ASSIGN(policy::Policy policy, options.policy.policy(policy::language_limits()));
  MEMBRANE_ASSIGN(const policy::Policy policy_of_wat, options.policy.policy());
  MEMBRANE_ASSIGN(const size_t most_sessions, sessions_of(options));
  MEMBRANE_TRY(check_granted(policy));
  std::unique_ptr<agent::ModelClient> client;
  if (policy.ai) {
    MEMBRANE_ASSIGN(agent::ModelConfig config,
                    agent::model_config_from([](const char* name) { return std::getenv(name); }));
    MEMBRANE_ASSIGN(client, agent::ModelClient::create(std::move(config)));
  }
  std::optional<agent::HostModel> model;
  if (client) model.emplace(*client, &stopped);

  sandbox::TemplateOptions for_templates = template_options(tier);
  for_templates.on_progress = nullptr;  // a terminal, if any, belongs to the client
  sandbox::LanguageTemplates languages(std::move(for_templates));
  const PackageOptions packages;
  mcp::LocalOptions local = local_options(options, languages, packages);
  MEMBRANE_TRY(add_computers(options, local));
  local.policy = std::move(policy);
  local.limits_of_wat = policy_of_wat.limits;
  local.tier = tier;
  local.model = model ? &*model : nullptr;
  local.most_sessions = most_sessions;
  local.guests = guests;
  local.signing_key = signing_key;
  const mcp::Server server(mcp::local_backend(std::move(local)), {.version = MEMBRANE_VERSION});

  std::signal(SIGPIPE, SIG_IGN);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, [](int) { stopped = true; });
  mcp::serve_stdio(server, {.stop = &stopped, .threads = std::max(2u, std::thread::hardware_concurrency())});
  return kExitOk;
}

}  // namespace

void add_mcp(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* const command = app.add_subcommand(
      "mcp", "Serve programs, sessions and files to a model's client, by the Model Context Protocol");
  command
      ->add_option("--max-sessions", options->most_sessions,
                   "How many sessions may exist at once (default: 16)")
      ->type_name("N");
  command->add_option("--tier", options->tier, "What runs the code: interpreter, compiler, or auto")
      ->type_name("TIER");
  command
      ->add_option("--image", options->image,
                   "The image of Linux sandboxes, or its file (default: debian, if it exists)")
      ->type_name("IMAGE");
  add_in_process(*command, options->in_process);
  options->policy.add_to(*command);
  command->footer(
      "Examples:\n"
      "  membrane mcp\n"
      "  membrane mcp --policy policy.toml --allow 'http:GET:https://example.org/*'\n"
      "  membrane mcp --dir ./data:/data:ro --wall 10s\n"
      "A client starts it, writes messages to its standard input and reads them from its standard output; "
      "what a "
      "person\n"
      "should hear of goes to standard error. Nothing is granted but what the policy and the flags name; "
      "packages "
      "are\n"
      "those that the policy names. It ends with its input. docs/mcp.md says how clients are configured.\n"
      "Exit codes: 0 fine; 2 an invalid policy or flag; 3 Membrane failed.");
  command->callback([options, &exit_code] {
    const Result<int> code = run(*options);
    exit_code = code ? *code : complain(code.error());
  });
}

}  // namespace membrane::cli
