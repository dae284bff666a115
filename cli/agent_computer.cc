#include "cli/agent_computer.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "agent/actions/computer_actions.h"
#include "agent/actions/prompt.h"
#include "cli/cli.h"
#include "cli/linux_run.h"
#include "cli/out_directory.h"
#include "computers/description.h"
#include "computers/directories/directory_broker.h"
#include "computers/network/gateway.h"
#include "computers/patch.h"
#include "computers/settings.h"
#include "host/egress/http_egress.h"

namespace membrane::cli {

namespace {

// Makes programs ask nobody and page nothing, and keeps Python from caching code by a file's time in seconds,
// within which a model may edit twice.
const std::vector<std::string> kForCommands = {"TERM=dumb",
                                               "PAGER=cat",
                                               "GIT_PAGER=cat",
                                               "GIT_TERMINAL_PROMPT=0",
                                               "DEBIAN_FRONTEND=noninteractive",
                                               "PYTHONDONTWRITEBYTECODE=1"};

}  // namespace

Result<std::unique_ptr<AgentComputer>> AgentComputer::start(AgentComputerOptions options) {
  MEMBRANE_TRY(computers::check_grants(options.policy));
  MEMBRANE_TRY(computers::check_limits(options.policy.limits));
  MEMBRANE_TRY(host::check_granted_secrets(options.policy.http));
  std::unique_ptr<AgentComputer> made(new AgentComputer(std::move(options)));
  const std::string& name = made->options_.image;
  MEMBRANE_ASSIGN(made->image_, find_image_or_usual(name));
  made->mark_ = computers::mark_of(made->image_);
  MEMBRANE_TRY(made->read_copies());
  MEMBRANE_ASSIGN(made->source_, linux::ComputerSource::create(0));
  made->environment_ = computers::environment_of(made->image_.config);
  computers::add_environment(made->environment_, kForCommands);
  computers::add_authority_variables(made->environment_, made->options_.policy.http);
  made->choose_directories();
  MEMBRANE_ASSIGN(made->first_, made->create(-1));
  MEMBRANE_TRY(made->survey());
  return made;
}

// "./repo", into the home of the guest's user; "./repo:/srv/repo".
Status AgentComputer::read_copies() {
  for (const std::string& word : options_.copies) {
    const size_t colon = word.rfind(':');
    Copy copy = {word.substr(0, colon), colon == word.npos ? "" : word.substr(colon + 1)};
    std::error_code error;
    const std::filesystem::path from = std::filesystem::canonical(copy.from, error);
    if (error)
      return fail(ErrorCode::kNotFound, "--copy " + word + ": " + copy.from + " does not exist",
                  "Write it as HOST or HOST:GUEST.");
    if (copy.to.empty()) copy.to = "/root/" + from.filename().string();
    if (!copy.to.starts_with('/'))
      return fail(ErrorCode::kInvalidArgument, "--copy " + word + ": " + copy.to + " is not absolute",
                  "Write its path in the sandbox, as /root/" + from.filename().string() + ".");
    copy.from = from.string();
    copies_.push_back(std::move(copy));
  }
  return {};
}

// Commands start in the one directory that was copied in, or else in the one that is granted.
void AgentComputer::choose_directories() {
  const auto& granted = options_.policy.fs;
  directory_ = computers::directory_of(image_.config);
  if (copies_.size() == 1 && std::filesystem::is_directory(copies_.front().from))
    directory_ = changed_directory_ = copies_.front().to;
  else if (copies_.empty() && granted.size() == 1) directory_ = granted.front().guest;
}

// A sandbox, its network connections, and the directories of this machine that it sees.
struct AgentComputer::Networked {
  std::unique_ptr<computers::Gateway> gateway;
  std::unique_ptr<computers::DirectoryBroker> directories;
  std::unique_ptr<linux::LiveComputer> computer;
};

Result<std::shared_ptr<linux::LiveComputer>> AgentComputer::create(int kept) {
  const auto made = std::make_shared<Networked>();
  MEMBRANE_ASSIGN(made->gateway, computers::Gateway::create({.grants = options_.policy.http,
                                                             .limits = options_.policy.limits,
                                                             .authority = authority_}));
  MEMBRANE_ASSIGN(made->directories,
                  computers::DirectoryBroker::create(options_.policy.fs, made->gateway->budget()));
  linux::LiveSpec spec;
  spec.network = made->gateway->socket();
  spec.directories = made->directories->mounts();
  if (kept < 0) spec.image = image_.path;
  spec.kept = kept;
  spec.limits = computers::limits_of(options_.policy.limits);
  spec.platform = options_.platform.empty() ? options_.policy.platform : options_.platform;
  MEMBRANE_ASSIGN(made->computer, source_->create(spec));
  made->gateway->begin();
  made->directories->begin();
  if (kept < 0) {
    for (const Copy& copy : copies_) MEMBRANE_TRY(agent::copy_into(*made->computer, copy.from, copy.to));
    keep_beginning(*made->computer);
  }
  latest_ = made;
  return std::shared_ptr<linux::LiveComputer>(made, made->computer.get());
}

void AgentComputer::keep_beginning(linux::LiveComputer& computer) {
  auto file = linux::memory_to_keep_in();
  const bool is_kept = file && computer.keep(file->number(), linux::LiveComputer::Keep::kFiles);
  beginning_ = is_kept ? *std::move(file) : linux::HostFile();
}

Status AgentComputer::survey() {
  agent::ComputerPromptParts parts;
  MEMBRANE_ASSIGN(parts.programs, agent::programs_in(*first_, environment_));
  if (!beginning_)
    for (const std::string_view entry : {agent::kDiffEntry, agent::kUndoEntry}) without_.emplace_back(entry);
  parts.directory = directory_;
  for (const Copy& copy : copies_) parts.copied.push_back(copy.to);
  parts.policy_explanation = agent::explain_computer(options_.policy);
  parts.max_steps = options_.max_steps;
  parts.observation_bytes = options_.observation_bytes;
  parts.without = without_;
  prompt_ = agent::build_computer_prompt(parts);
  return {};
}

Result<agent::Executor> AgentComputer::executor(sandbox::ReceiptBook* receipts) {
  agent::ComputerExecutorOptions options;
  options.create = [this](int kept) { return create(kept); };
  options.policy = options_.policy;
  options.environment = environment_;
  options.directory = directory_;
  options.receipts = receipts;
  options.diff = [this](linux::LiveComputer& computer) { return diff(computer); };
  options.before_command = [this] {
    if (const auto latest = latest_.lock()) latest->gateway->renew(options_.policy.limits);
  };
  options.after_command = [this](sandbox::Report& report) {
    const auto latest = latest_.lock();
    if (latest == nullptr) return;
    latest->gateway->tell(report);
    latest->directories->report_uses(report);
  };
  if (receipts != nullptr) {
    MEMBRANE_ASSIGN(options.description,
                    computers::description_of(image_, mark_, first_->platform(), directory_, std::nullopt));
  }
  return agent::computer_executor(std::move(options), std::move(first_));
}

// -- what has changed -----------------------------------------------------------------------------------------------

Result<AgentComputer::Beginning> AgentComputer::beginning() {
  if (!beginning_)
    return fail(ErrorCode::kUnavailable,
                "the state of the files at the start of the task could not be saved");
  Beginning made;
  MEMBRANE_ASSIGN(made.image, linux::Layer::open(image_.path));
  linux::LiveSpec spec;
  spec.image = image_.path;
  spec.kept = beginning_.number();
  spec.kept_files_only = true;
  spec.limits = computers::limits_of(options_.policy.limits);
  spec.platform = options_.platform.empty() ? options_.policy.platform : options_.platform;
  MEMBRANE_ASSIGN(made.computer, source_->create(spec));
  return made;
}

Result<std::string> AgentComputer::diff(linux::LiveComputer& computer) {
  MEMBRANE_ASSIGN(const Beginning before, beginning());
  MEMBRANE_ASSIGN(
      computers::MadePatch patch,
      computers::make_patch_since(*before.computer, computer, before.image.get(), changed_directory_));
  return std::move(patch.text);
}

Status AgentComputer::write_diff(const std::string& file) {
  const auto latest = latest_.lock();
  std::string patch;
  if (latest != nullptr) {
    MEMBRANE_ASSIGN(patch, diff(*latest->computer));
  }
  std::ofstream to(file, std::ios::binary | std::ios::trunc);
  to << patch;
  to.close();
  if (!to) return fail(ErrorCode::kUnavailable, "cannot write the patch to " + file);
  return {};
}

Status AgentComputer::write_out(const std::string& directory) {
  MEMBRANE_ASSIGN(OutDirectory out, OutDirectory::open(directory));
  const auto latest = latest_.lock();
  if (latest == nullptr) return {};
  MEMBRANE_ASSIGN(const Beginning before, beginning());
  size_t links = 0;
  const auto take = [&](const std::string& name, const computers::GitFile&, const computers::GitFile& after) {
    if (S_ISLNK(after.mode)) links += !out.keep_link(name, after.bytes, "");
    else if (after.mode != 0) out.keep("/" + name, after.bytes, (after.mode & 0100) != 0);
    return out.status();
  };
  computers::PatchBudget budget({.file_bytes = UINT64_MAX});
  const auto done =
      computers::visit_changes_since(*before.computer, *latest->computer, before.image.get(),
                                     changed_directory_, computers::kMostPatchBytes, budget, take);
  if (!done) return std::unexpected(done.error());
  if (links > 0)
    print(stderr, "note: " + std::to_string(links) +
                      " symbolic links lead elsewhere, and are not written to " + directory + "\n");
  return {};
}

}  // namespace membrane::cli
