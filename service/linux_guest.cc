#include "service/linux_guest.h"

#include <fcntl.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "computers/command_run.h"
#include "computers/description.h"
#include "computers/settings.h"
#include "sandbox/receipts/receipt_recorder.h"
#include "service/environments.h"
#include "service/linux_usage.h"
#include "service/session_guest.h"

namespace membrane::service {
namespace {

constexpr uint64_t kTerminalWallMs = 24ull * 3'600'000;  // for a command on a terminal

ApiError no_context(const std::string& id) {
  return {ApiCode::kNotFound, "the sandbox has no context " + id, "GET …/contexts lists them."};
}

sandbox::Report invalid_report(const ApiError& error) {
  sandbox::Report report;
  report.outcome = sandbox::Outcome::kInvalid;
  sandbox::ReportError& shown = report.errors.emplace_back();
  shown.code = name_of(error.code);
  shown.message = error.message;
  shown.hint = error.hint;
  return report;
}

std::vector<std::string> lines_of(const Environment& environment) {
  std::vector<std::string> lines;
  for (const auto& [name, value] : environment) lines.push_back(name + "=" + value);
  return lines;
}

// Whether both need the same computer; their other parts concern a turn.
bool is_same_computer(const policy::Policy& one, const policy::Policy& other) {
  const auto of = [](const policy::Policy& policy) {
    const policy::Limits& limits = policy.limits;
    return std::tie(limits.memory_bytes, limits.disk_bytes, limits.tasks, limits.cpu_ms, policy.platform);
  };
  return of(one) == of(other);
}

// An empty environment is empty, and not the service's own.
host::Secrets secrets_of(const host::Secrets& secrets) {
  if (secrets) return secrets;
  return [](const std::string&) -> std::optional<std::string> { return std::nullopt; };
}

sandbox::Invocation invocation_of(const GuestTurn& turn, const computers::CommandRun& run) {
  sandbox::Invocation invocation;
  invocation.name = turn.name;
  invocation.given_input = turn.stdin_text;
  invocation.has_input = invocation.input_is_live = turn.read_input != nullptr;
  invocation.arguments = run.spec.arguments;
  for (const std::string& each : run.spec.environment)
    invocation.environment.emplace_back(each.substr(0, each.find('=')), each.substr(each.find('=') + 1));
  return invocation;
}

Result<computers::User> user_of(const std::string& who, linux::LiveComputer& computer) {
  return who.empty() ? Result<computers::User>(computers::User()) : computers::find_user(who, computer);
}

}  // namespace

// Refuses grants and limits that a sandbox of this kind cannot enforce.
Answer<void> check_held(const policy::Policy& policy) {
  if (const Status held = computers::check_grants(policy); !held)
    return std::unexpected(api_error(held.error()));
  if (const Status held = computers::check_limits(policy.limits); !held)
    return std::unexpected(api_error(held.error()));
  return {};
}

LinuxGuest::LinuxGuest(linux::ComputerSource& source, GuestSpec spec, linux::StoredImage image)
    : source_(source),
      spec_(std::move(spec)),
      stored_(std::move(image)),
      mark_(computers::mark_of(stored_)),
      base_environment_(computers::environment_of(stored_.config)),
      base_directory_(computers::directory_of(stored_.config)) {
  if (spec_.authority == nullptr) spec_.authority = std::make_shared<computers::Authority>();
}

Answer<void> LinuxGuest::begin(const std::string& image) {
  linux::LiveSpec spec;
  spec.image = image;
  hold_image(image);
  return make(spec, spec_.policy);
}

bool LinuxGuest::works_by_itself() {
  const auto usage = computer()->usage();
  return usage && usage->tasks > 0;
}

// -- turns --------------------------------------------------------------------------------------------------------

sandbox::Report LinuxGuest::exec(const GuestTurn& turn) {
  const std::shared_ptr<linux::LiveComputer> computer = this->computer();
  const auto user = user_of(turn.user.empty() ? stored_.config.user : turn.user, *computer);
  if (!user) return invalid_report(api_error(user.error()));
  auto directory = directory_for(turn, turn.user.empty() ? "" : user->home);
  if (!directory) return invalid_report(directory.error());
  computers::CommandRun run;
  run.spec.user = user->user;
  run.spec.group = user->group;
  std::vector<policy::HttpGrant> granted;
  {
    const std::lock_guard lock(mutex_);
    granted = spec_.policy.http;
    run.limits = spec_.policy.limits;
    run.spec.environment = base_environment_;
    computers::set_home(run.spec.environment, stored_.config, *user);
    computers::add_environment(run.spec.environment, lines_of(spec_.environment));
  }
  if (!turn.user.empty() && !user->home.empty())
    computers::add_environment(run.spec.environment, {"HOME=" + user->home});
  computers::add_environment(run.spec.environment, lines_of(turn.environment));
  computers::add_authority_variables(run.spec.environment, granted);
  if (turn.terminal) computers::add_defaults(run.spec.environment, {"TERM=xterm-256color"});
  run.spec.arguments = words_of(*computer, turn);
  run.spec.directory = *std::move(directory);
  run.spec.terminal = turn.terminal;
  if (turn.terminal && run.limits.wall_ms == computers::usual_limits().wall_ms)
    run.limits.wall_ms = kTerminalWallMs;  // nobody has requested less
  if (turn.most_time)
    run.limits.wall_ms = std::min(run.limits.wall_ms, static_cast<uint64_t>(turn.most_time->count()));
  run.input = turn.stdin_text;
  run.read_input = turn.read_input;
  run.stop_reading = turn.stop_reading;
  run.on_output = turn.on_stdout;
  run.on_error = turn.on_stderr;
  run.is_exact = true;
  run.on_begun = turn.on_begun;
  run.is_cancelled = [this, &turn] { return is_stopped_ || (turn.is_cancelled && turn.is_cancelled()); };
  sandbox::Invocation invocation;
  if (turn.seal != nullptr) invocation = invocation_of(turn, run);
  const std::string began_in = run.spec.directory;
  const std::shared_ptr<computers::Gateway> gateway = this->gateway();
  if (running_.fetch_add(1) == 0) gateway->renew(run.limits);  // concurrent commands share them
  sandbox::Report report = computers::run_command(*computer, std::move(run));
  --running_;
  gateway->tell(report);
  if (const auto directories = this->directories()) directories->report_uses(report);
  if (turn.seal == nullptr) return report;
  if (const auto sealed = seal(turn, std::move(invocation), computer->platform(), began_in, report); !sealed)
    tell_unsealed(sealed.error(), report);
  return report;
}

void LinuxGuest::end() {
  is_stopped_ = true;
  if (const auto computer = this->computer()) computer->end();
}

Answer<void> LinuxGuest::seal(const GuestTurn& turn, sandbox::Invocation invocation,
                              const std::string& platform, const std::string& directory,
                              const sandbox::Report& report) {
  sandbox::MadeOf made_of;
  made_of.source = turn.command.empty() ? turn.code : turn.command.front();
  made_of.invocation = std::move(invocation);
  auto description = computers::description_of(stored_, mark_, platform, directory, std::nullopt);
  if (!description) return std::unexpected(api_error(description.error()));
  made_of.computer = *std::move(description);
  const policy::Policy policy = [this] {
    const std::lock_guard lock(mutex_);
    return spec_.policy;
  }();
  made_of.policy = &policy;
  sandbox::ReceiptRecorder recorder(turn.seal->key);
  const auto sealed = recorder.seal_run(std::move(made_of), report);
  if (!sealed) return std::unexpected(api_error(sealed.error()));
  return turn.seal->keep(*sealed, 0);
}

Answer<std::string> LinuxGuest::directory_for(const GuestTurn& turn, const std::string& home) {
  const std::lock_guard lock(mutex_);
  const auto context = contexts_.find(turn.context);
  if (!turn.context.empty() && context == contexts_.end()) return std::unexpected(no_context(turn.context));
  const std::string& before = context != contexts_.end() ? context->second
                              : home.empty()             ? base_directory_
                                                         : home;
  if (turn.directory.empty()) return before;
  std::string directory = turn.directory.starts_with('/') ? turn.directory : before + "/" + turn.directory;
  if (const auto checked = LinuxFiles::check_path(directory); !checked)
    return std::unexpected(checked.error());
  if (context != contexts_.end()) context->second = directory;
  return directory;
}

std::vector<std::string> LinuxGuest::words_of(linux::LiveComputer& computer, const GuestTurn& turn) {
  if (!turn.command.empty()) return turn.command;
  std::string shell = this->shell(computer);
  std::vector<std::string> words = {shell, "-c", turn.code, turn.name.empty() ? shell : turn.name};
  words.insert(words.end(), turn.arguments.begin(), turn.arguments.end());
  return words;
}

std::string LinuxGuest::shell(linux::LiveComputer& computer) {
  {
    const std::lock_guard lock(mutex_);
    if (!shell_.empty()) return shell_;
  }
  std::string found = computer.stat("/bin/bash", true) ? "/bin/bash" : "/bin/sh";
  const std::lock_guard lock(mutex_);
  return shell_ = std::move(found);
}

// -- contexts, the environment and the policy ---------------------------------------------------------------------

Answer<void> LinuxGuest::open_context(const std::string& id, const std::string& template_name) {
  const std::lock_guard lock(mutex_);
  if (!template_name.empty() && template_name != spec_.template_name)
    return refuse(ApiCode::kUnsupported,
                  "a context of a Linux sandbox is a directory in it, without a template of its own",
                  "Remove the template, or create another sandbox.");
  if (contexts_.contains(id)) return refuse(ApiCode::kConflict, "the context " + id + " already exists");
  contexts_[id] = base_directory_;
  return {};
}

Answer<void> LinuxGuest::close_context(const std::string& id) {
  const std::lock_guard lock(mutex_);
  if (!id.empty() && contexts_.erase(id) > 0) return {};
  return std::unexpected(no_context(id));
}

Answer<void> LinuxGuest::set_environment(const Environment& environment) {
  if (auto checked = check_environment(environment); !checked) return checked;
  const std::lock_guard lock(mutex_);
  spec_.environment = environment;
  return {};
}

// Some limits, the platform and directories belong to the computer: to change them, the sandbox is moved to
// a new computer.
Answer<void> LinuxGuest::set_policy(const policy::Policy& policy, const host::Secrets& secrets) {
  if (const auto held = check_held(policy); !held) return held;
  policy::Policy before;
  {
    const std::lock_guard lock(mutex_);
    before = spec_.policy;
  }
  if (!is_same_computer(policy, before) || policy.fs != before.fs) {
    const auto file = kept_file();
    if (!file) return std::unexpected(file.error());
    if (const auto made = make_from(**file, policy); !made) return made;
  }
  if (const Status shown = gateway()->set_grants(policy.http, secrets_of(secrets)); !shown)
    return std::unexpected(api_error(shown.error()));
  const std::lock_guard lock(mutex_);
  spec_.policy = policy;
  spec_.secrets = secrets;
  return {};
}

// -- files --------------------------------------------------------------------------------------------------------

Answer<void> LinuxGuest::check_context(const std::string& context) const {
  const std::lock_guard lock(mutex_);
  if (!context.empty() && !contexts_.contains(context)) return std::unexpected(no_context(context));
  return {};
}

Answer<std::string> LinuxGuest::read_file(const std::string& context, const std::string& path) {
  if (const auto known = check_context(context); !known) return std::unexpected(known.error());
  return file_access().read(path);
}

Answer<void> LinuxGuest::write_file(const std::string& context, const std::string& path,
                                    std::string_view bytes) {
  if (const auto known = check_context(context); !known) return known;
  return file_access().write(path, bytes);
}

Answer<std::vector<wasi::FileFact>> LinuxGuest::act_on_files(const std::string& context,
                                                             const wasi::FileRequest& request) {
  if (const auto known = check_context(context); !known) return std::unexpected(known.error());
  return file_access().act(request);
}

Answer<std::vector<sandbox::ReportFile>> LinuxGuest::files(const std::string& context) {
  if (const auto known = check_context(context); !known) return std::unexpected(known.error());
  return file_access().created();
}

Answer<linux::FileFacts> LinuxGuest::stat_file(const std::string& path, bool follows_links) {
  return file_access().stat(path, follows_links);
}

Answer<void> LinuxGuest::set_mode(const std::string& path, uint32_t mode) {
  return file_access().set_mode(path, mode);
}

Answer<void> LinuxGuest::make_link(const std::string& path, const std::string& target) {
  return file_access().make_link(path, target);
}

Answer<void> LinuxGuest::make_home(const std::string& path) {
  if (const auto checked = LinuxFiles::check_path(path); !checked) return checked;
  const auto computer = this->computer();
  if (computer->stat(path, true)) return {};
  const auto user = user_of(stored_.config.user, *computer);
  if (!user) return std::unexpected(api_error(user.error()));
  if (const auto made = file_access().make_directories(path); !made) return std::unexpected(made.error());
  if (const Status owned = computer->set_owner(path, user->user, user->group); !owned)
    return std::unexpected(file_error(owned.error()));
  return {};
}

Answer<GuestUsage> LinuxGuest::usage() { return usage_of(*computer()); }

// -- its computer -------------------------------------------------------------------------------------------------

std::shared_ptr<linux::LiveComputer> LinuxGuest::computer() const {
  const std::lock_guard lock(mutex_);
  return computer_;
}

std::shared_ptr<computers::Gateway> LinuxGuest::gateway() const {
  const std::lock_guard lock(mutex_);
  return gateway_;
}

std::shared_ptr<computers::DirectoryBroker> LinuxGuest::directories() const {
  const std::lock_guard lock(mutex_);
  return directories_;
}

void LinuxGuest::hold_image(const std::string& path) {
  const std::lock_guard lock(mutex_);
  image_ = linux::HostFile(path.empty() ? -1 : open(path.c_str(), O_RDONLY | O_CLOEXEC));
}

linux::HostFile LinuxGuest::image_file() {
  const std::lock_guard lock(mutex_);
  return linux::HostFile(image_ ? fcntl(image_.number(), F_DUPFD_CLOEXEC, 0) : -1);
}

Answer<LinuxGuest::Made> LinuxGuest::build(linux::LiveSpec spec, const policy::Policy& policy) {
  spec.limits = computers::limits_of(policy.limits);
  spec.platform = policy.platform;
  auto gateway = computers::Gateway::create({.grants = policy.http,
                                             .limits = policy.limits,
                                             .secrets = secrets_of(spec_.secrets),
                                             .connections = spec_.connections,
                                             .authority = spec_.authority});
  if (!gateway) return std::unexpected(api_error(gateway.error()));
  spec.network = (*gateway)->socket();
  auto directories = computers::DirectoryBroker::create(policy.fs, (*gateway)->budget());
  if (!directories) return std::unexpected(api_error(directories.error()));
  spec.directories = (*directories)->mounts();
  auto computer = source_.create(spec);
  if (!computer) {
    ApiError error = api_error(computer.error());
    if (error.code == ApiCode::kNotFound)
      error.code = ApiCode::kInvalidValue;  // concerns the template, not the path
    return std::unexpected(std::move(error));
  }
  (*gateway)->begin();
  (*directories)->begin();
  return Made{*std::move(gateway), *std::move(directories), *std::move(computer)};
}

Answer<void> LinuxGuest::make(const linux::LiveSpec& spec, const policy::Policy& policy) {
  auto made = build(spec, policy);
  if (!made) return std::unexpected(made.error());
  const std::lock_guard lock(mutex_);
  computer_ = std::move(made->computer);
  directories_ = std::move(made->directories);
  gateway_ = std::move(made->gateway);
  return {};
}

}  // namespace membrane::service
