#include "cli/agent_computer.h"

#include <sys/mman.h>

#include <filesystem>

#include "agent/computer_actions.h"
#include "agent/prompt.h"
#include "cli/cli.h"
#include "computers/description.h"
#include "computers/settings.h"
#include "linux/platform/trap/host_file.h"

namespace membrane::cli {

namespace {

// Programs that ask nobody and page nothing; and no code of Python's that is kept by a file's time in seconds, in which a model edits twice.
const std::vector<std::string> kForCommands = {"TERM=dumb",
                                               "PAGER=cat",
                                               "GIT_PAGER=cat",
                                               "GIT_TERMINAL_PROMPT=0",
                                               "DEBIAN_FRONTEND=noninteractive",
                                               "PYTHONDONTWRITEBYTECODE=1"};

// Whether its files can be kept, so that there is an undo.
bool keeps_files(linux::LiveComputer& computer) {
  const linux::HostFile file(memfd_create("membrane-checkpoint", MFD_CLOEXEC));
  return file && computer.keep(file.number(), linux::LiveComputer::Keep::kFiles);
}

}  // namespace

Result<std::unique_ptr<AgentComputer>> AgentComputer::start(AgentComputerOptions options) {
  MEMBRANE_TRY(computers::check_grants(options.policy));
  MEMBRANE_TRY(computers::check_limits(options.policy.limits));
  std::unique_ptr<AgentComputer> made(new AgentComputer(std::move(options)));
  const std::string& name = made->options_.image;
  MEMBRANE_ASSIGN(made->image_, linux::find_image(name.empty() ? std::string(computers::kUsualImage) : name));
  MEMBRANE_TRY(made->read_copies());
  MEMBRANE_ASSIGN(made->source_, linux::ComputerSource::create(0));
  made->environment_ = computers::environment_of(made->image_.config);
  computers::add_environment(made->environment_, kForCommands);
  made->directory_ = made->copies_.size() == 1 && std::filesystem::is_directory(made->copies_.front().from)
                         ? made->copies_.front().to
                         : computers::directory_of(made->image_.config);
  MEMBRANE_ASSIGN(made->first_, made->create(-1));
  MEMBRANE_TRY(made->survey());
  return made;
}

// "./repo", at /root/repo; "./repo:/work/repo".
Status AgentComputer::read_copies() {
  for (const std::string& word : options_.copies) {
    const size_t colon = word.rfind(':');
    Copy copy = {word.substr(0, colon), colon == word.npos ? "" : word.substr(colon + 1)};
    std::error_code error;
    const std::filesystem::path from = std::filesystem::canonical(copy.from, error);
    if (error)
      return fail(ErrorCode::kNotFound, "--copy " + word + ": " + copy.from + " is not there",
                  "Write it as HOST or HOST:GUEST.");
    if (copy.to.empty()) copy.to = "/root/" + from.filename().string();
    if (!copy.to.starts_with('/'))
      return fail(ErrorCode::kInvalidArgument, "--copy " + word + ": " + copy.to + " is not absolute",
                  "Write where it stands in the sandbox, as /root/" + from.filename().string() + ".");
    copy.from = from.string();
    copies_.push_back(std::move(copy));
  }
  return {};
}

Status AgentComputer::connect(linux::LiveSpec& spec) {
  const policy::Policy& policy = options_.policy;
  if (budget_ == nullptr) {
    budget_ = std::make_shared<policy::Budget>();
    budget_->set(policy::Resource::kHostCalls, policy.limits.host_calls);
    budget_->set(policy::Resource::kBytesIn, policy.limits.bytes_in);
    budget_->set(policy::Resource::kBytesOut, policy.limits.bytes_out);
  }
  std::erase_if(outside_, [](const Outside& each) { return each.gateway->is_over(); });
  Outside outside;
  MEMBRANE_ASSIGN(outside.gateway, computers::Gateway::create({.grants = policy.http, .limits = policy.limits, .budget = budget_}));
  MEMBRANE_ASSIGN(outside.directories, computers::DirectoryBroker::create(policy.fs, *budget_));
  spec.network = outside.gateway->socket();
  spec.directories = outside.directories->mounts();
  outside_.push_back(std::move(outside));
  return {};
}

void AgentComputer::tell(sandbox::Report& report) const {
  if (!outside_.empty()) outside_.back().gateway->tell(report);
}

Result<std::unique_ptr<linux::LiveComputer>> AgentComputer::create(int kept) {
  linux::LiveSpec spec;
  if (kept < 0) spec.image = image_.path;
  spec.kept = kept;
  spec.limits = computers::limits_of(options_.policy.limits);
  spec.platform = options_.platform.empty() ? options_.policy.platform : options_.platform;
  MEMBRANE_TRY(connect(spec));
  MEMBRANE_ASSIGN(auto computer, source_->create(spec));
  outside_.back().gateway->begin();
  outside_.back().directories->begin();
  if (kept >= 0) return computer;
  for (const Copy& copy : copies_) MEMBRANE_TRY(agent::copy_into(*computer, copy.from, copy.to));
  return computer;
}

Status AgentComputer::survey() {
  agent::ComputerPromptParts parts;
  MEMBRANE_ASSIGN(parts.programs, agent::programs_in(*first_, environment_));
  without_.emplace_back(agent::kDiffEntry);
  if (!keeps_files(*first_)) without_.emplace_back(agent::kUndoEntry);
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
  options.tell = [this](sandbox::Report& report) { tell(report); };
  options.policy = options_.policy;
  options.environment = environment_;
  options.directory = directory_;
  options.receipts = receipts;
  if (receipts != nullptr) {
    MEMBRANE_ASSIGN(options.description,
                    computers::description_of(image_, first_->platform(), directory_, std::nullopt));
  }
  return agent::computer_executor(std::move(options), std::move(first_));
}

}  // namespace membrane::cli
