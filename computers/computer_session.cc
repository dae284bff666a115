#include "computers/computer_session.h"

#include <sys/stat.h>

#include <utility>

#include "computers/command_run.h"
#include "computers/directories/directory_broker.h"
#include "computers/network/gateway.h"
#include "linux/platform/trap/host_file.h"

namespace membrane::computers {

namespace {

constexpr uint64_t kMostFileBytes = 256u << 20;
constexpr size_t kMostListedFiles = 1'000;

std::unexpected<Error> only_of_languages(const char* what) {
  return fail(ErrorCode::kUnsupported, std::string("a Linux sandbox cannot be ") + what + " here");
}

host::HostError host_error(const Error& error) {
  host::HostError failure;
  failure.code = error.code == ErrorCode::kNotFound    ? host::Errno::kNotFound
                 : error.code == ErrorCode::kExhausted ? host::Errno::kBudget
                 : error.code == ErrorCode::kTooLong   ? host::Errno::kTooBig
                                                       : host::Errno::kInvalid;
  failure.reason = error.message;
  return failure;
}

class ComputerSession final : public sandbox::Session {
 public:
  ComputerSession(ComputerSessionOptions options, std::unique_ptr<Gateway> gateway,
                  std::unique_ptr<DirectoryBroker> directories, std::unique_ptr<linux::LiveComputer> computer)
      : options_(std::move(options)),
        gateway_(std::move(gateway)),
        directories_(std::move(directories)),
        computer_(std::move(computer)) {}
  static Result<std::unique_ptr<Session>> make(const ComputerSessionOptions& options, linux::LiveSpec spec) {
    MEMBRANE_ASSIGN(auto gateway, Gateway::create({.grants = options.grants,
                                                   .limits = options.limits,
                                                   .authority = options.authority}));
    MEMBRANE_ASSIGN(auto directories, DirectoryBroker::create(options.directories, gateway->budget()));
    spec.network = gateway->socket();
    spec.directories = directories->mounts();
    MEMBRANE_ASSIGN(auto computer, options.source->create(spec));
    gateway->begin();
    directories->begin();
    return std::make_unique<ComputerSession>(options, std::move(gateway), std::move(directories),
                                             std::move(computer));
  }

  sandbox::Report exec(const sandbox::Turn& turn) override {
    const bool has_bash = computer_->stat("/bin/bash", true).has_value();
    const std::string shell = has_bash ? "/bin/bash" : "/bin/sh";
    CommandRun run;
    run.spec.arguments = {shell, "-c", turn.code, turn.name.empty() ? shell : turn.name};
    run.spec.arguments.insert(run.spec.arguments.end(), turn.arguments.begin(), turn.arguments.end());
    run.spec.environment = options_.environment;
    add_authority_variables(run.spec.environment, options_.grants);
    run.spec.directory = options_.directory;
    run.limits = options_.limits;
    run.input = turn.input;
    run.read_input = turn.read_input;
    run.on_output = turn.on_stdout;
    run.on_error = turn.on_stderr;
    run.is_cancelled = [&turn] { return turn.cancel != nullptr && *turn.cancel; };
    gateway_->renew(options_.limits);
    sandbox::Report report = run_command(*computer_, std::move(run));
    gateway_->tell(report);
    directories_->report_uses(report);
    return report;
  }
  sandbox::Report go_on(std::optional<uint64_t>) override {
    return sandbox::refusal(Error{ErrorCode::kInvalidArgument, "no turn is paused", ""});
  }
  // Linux programs cannot call functions of the embedder.
  sandbox::Report resume(std::vector<sandbox::FunctionAnswer>) override { return go_on(std::nullopt); }
  void cancel_by(const std::atomic<bool>*) override {}
  [[nodiscard]] std::vector<sandbox::FunctionCall> waits_for() const override { return {}; }
  void end(sandbox::Report&) override {}
  [[nodiscard]] std::optional<uint64_t> paused_at_fuel() const override { return std::nullopt; }

  Result<std::unique_ptr<Session>> fork(uint64_t) override {
    MEMBRANE_ASSIGN(const linux::HostFile file, linux::memory_to_keep_in());
    MEMBRANE_TRY(computer_->keep(file.number(), linux::LiveComputer::Keep::kAll));
    linux::LiveSpec spec = options_.spec;
    spec.kept = file.number();
    return make(options_, std::move(spec));
  }
  [[nodiscard]] Result<std::vector<uint8_t>> keep() const override { return only_of_languages("kept"); }
  [[nodiscard]] Result<std::vector<uint8_t>> keep_fork(uint64_t) const override {
    return only_of_languages("kept");
  }
  std::vector<std::string> complete(std::string_view) override { return {}; }

  // The differences from the image, if they can be listed.
  [[nodiscard]] std::vector<sandbox::ReportFile> files() const override {
    std::vector<sandbox::ReportFile> all;
    const auto changes = computer_->changes();
    if (!changes) return all;
    for (const linux::ChangedPath& each : *changes) {
      if (each.change == linux::Change::kRemoved || !S_ISREG(each.mode)) continue;
      if (all.size() == kMostListedFiles) break;
      if (const auto facts = computer_->stat(each.path, false)) all.push_back({each.path, facts->size});
    }
    return all;
  }
  [[nodiscard]] host::HostResult<std::string> read_file(std::string_view path) const override {
    const std::string at(path);
    const auto facts = computer_->stat(at, true);
    if (!facts) return std::unexpected(host_error(facts.error()));
    if (!S_ISREG(facts->mode) || facts->size > kMostFileBytes)
      return std::unexpected(
          host_error({ErrorCode::kInvalidInput, at + " is not a file that can be read at once", ""}));
    auto bytes = computer_->read_file(at, 0, kMostFileBytes);
    if (!bytes) return std::unexpected(host_error(bytes.error()));
    return *std::move(bytes);
  }
  host::HostResult<void> put_file(std::string_view path, std::string_view bytes) override {
    const std::string at(path);
    const auto before = computer_->stat(at, true);
    const Status written = computer_->write_file(at, bytes, before ? before->mode & 07777 : 0644);
    if (!written) return std::unexpected(host_error(written.error()));
    return {};
  }
  host::HostResult<std::vector<wasi::FileFact>> act_on_files(const wasi::FileRequest&) override {
    return std::unexpected(
        host_error({ErrorCode::kUnsupported, "only files can be read and written here", ""}));
  }
  [[nodiscard]] std::optional<uint64_t> private_bytes() const override {
    const auto usage = computer_->usage();
    if (!usage) return std::nullopt;
    return usage->memory_bytes + usage->disk_bytes;
  }

 private:
  const ComputerSessionOptions options_;
  const std::unique_ptr<Gateway> gateway_;  // outlives the computer and its directories
  const std::unique_ptr<DirectoryBroker> directories_;
  const std::unique_ptr<linux::LiveComputer> computer_;
};

}  // namespace

Result<std::unique_ptr<sandbox::Session>> computer_session(const ComputerSessionOptions& options) {
  ComputerSessionOptions all = options;
  if (all.authority == nullptr) all.authority = std::make_shared<Authority>();
  return ComputerSession::make(all, all.spec);
}

}  // namespace membrane::computers
