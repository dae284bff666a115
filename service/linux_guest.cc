#include "service/linux_guest.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <mutex>
#include <ranges>
#include <tuple>
#include <utility>

#include "computers/command_run.h"
#include "computers/description.h"
#include "computers/directories/directory_broker.h"
#include "computers/network/gateway.h"
#include "computers/patch.h"
#include "computers/settings.h"
#include "linux/image/layer.h"
#include "linux/kept/kept_file.h"
#include "linux/platform/trap/host_file.h"
#include "sandbox/receipts/receipt_recorder.h"
#include "service/client_policy.h"
#include "service/environments.h"
#include "service/session_guest.h"

namespace membrane::service {
namespace {

constexpr std::string_view kTemplate = "linux", kTemplateOfImage = "linux:";
constexpr uint64_t kMostKeptBytes = 2ull << 30;          // they are in memory on their way to disk
constexpr uint64_t kMostFileBytes = 256ull << 20;        // for a file that is read as a whole
constexpr uint64_t kTerminalWallMs = 24ull * 3'600'000;  // for a command on a terminal
constexpr uint64_t kReadAtOnce = 4u << 20;
constexpr size_t kMostPathBytes = 4096;
constexpr size_t kMostListedFiles = 1'000;  // of the files that it has created

// -- errors ---------------------------------------------------------------------------------------------------------

// Nothing of it can be recovered: a later attempt would fail the same way.
ApiError lost(const std::string& why) {
  return {ApiCode::kConflict, "the sandbox is lost: " + why, "End it, and create another."};
}

ApiError computer_error(const Error& error) {
  if (error.code == ErrorCode::kUnavailable) return lost(error.message);
  return api_error(error);
}

ApiError file_error(const Error& error) {
  ApiError shown = computer_error(error);
  if (shown.code == ApiCode::kNotFound && shown.hint.empty())
    shown.hint = "The list of files says what there is: files.list() of the clients, GET …/files/list.";
  return shown;
}

ApiError no_context(const std::string& id) {
  return {ApiCode::kNotFound, "the sandbox has no context " + id, "GET …/contexts lists them."};
}

Answer<void> check_path(const std::string& path) {
  if (path.starts_with('/') && path.size() <= kMostPathBytes && !path.contains('\0')) return {};
  return refuse(ApiCode::kInvalidValue, "the path is not absolute, or has a NUL, or more than 4096 bytes",
                "Paths in a sandbox are absolute, as /tmp/data.csv.");
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

computers::PatchLimits patch_limits(const computers::PatchMemory& memory) {
  constexpr size_t kMostPatchBytes = 64u << 20, kMostPatchFiles = 10'000;
  return {.text_bytes = kMostPatchBytes,
          .files = kMostPatchFiles,
          .file_bytes = kMostFileBytes,
          .memory = memory};
}

// -- kept bytes -----------------------------------------------------------------------------------------------------

using linux::HostFile;

Result<HostFile> memory_file_of(const std::vector<uint8_t>& bytes) {
  MEMBRANE_ASSIGN(HostFile file, linux::memory_to_keep_in());
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t written =
        pwrite(file.number(), bytes.data() + at, bytes.size() - at, static_cast<off_t>(at));
    if (written <= 0) return fail(ErrorCode::kExhausted, "there is not enough memory to save a sandbox");
    at += static_cast<size_t>(written);
  }
  return file;
}

Result<HostFile> for_reading(const HostFile& file) {
  HostFile opened(open(("/proc/self/fd/" + std::to_string(file.number())).c_str(), O_RDONLY | O_CLOEXEC));
  if (opened) return opened;
  return fail(ErrorCode::kInternal, "a saved sandbox cannot be read");
}

// -- files ----------------------------------------------------------------------------------------------------------

wasi::FileFact fact_of(const linux::FileFacts& facts, const std::string& path) {
  const auto type_of = [](uint32_t mode) {
    switch (mode & S_IFMT) {
      case S_IFDIR: return wasi::FileType::kDirectory;
      case S_IFREG: return wasi::FileType::kRegularFile;
      case S_IFLNK: return wasi::FileType::kSymbolicLink;
      default: return wasi::FileType::kUnknown;
    }
  };
  return {path, type_of(facts.mode), facts.size,
          static_cast<uint64_t>(std::max<int64_t>(facts.modified_ns, 0))};
}

std::string name_in(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// By name, directories before their contents. Links are not followed.
Answer<std::vector<wasi::FileFact>> list_files(linux::LiveComputer& computer, const std::string& path,
                                               bool is_deep) {
  std::vector<wasi::FileFact> all;
  std::vector<std::string> waiting = {path};  // pending directories, the next one last
  uint64_t path_bytes = 0;
  while (!waiting.empty()) {
    const std::string directory = std::exchange(waiting.back(), {});
    waiting.pop_back();
    auto listed = computer.list(directory);
    if (!listed && directory != path && listed.error().code == ErrorCode::kNotFound) continue;  // gone by now
    if (!listed) return std::unexpected(file_error(listed.error()));
    std::ranges::sort(*listed, {}, &linux::FileFacts::path);
    std::vector<std::string> below;
    for (const linux::FileFacts& facts : *listed) {
      const std::string found =
          (directory.ends_with('/') ? directory : directory + "/") + name_in(facts.path);
      path_bytes += found.size();
      if (path_bytes > wasi::System::kMaxListedPathBytes)
        return refuse(ApiCode::kTooLarge, path + " has too many entries to list at once",
                      "List directories below it, or run find in the sandbox.");
      all.push_back(fact_of(facts, found));
      if (is_deep && S_ISDIR(facts.mode)) below.push_back(found);
    }
    waiting.insert(waiting.end(), below.rbegin(), below.rend());
  }
  if (is_deep) std::ranges::sort(all, {}, &wasi::FileFact::path);
  return all;
}

Answer<wasi::FileFact> stat_file(linux::LiveComputer& computer, const std::string& path) {
  const auto facts = computer.stat(path, true);
  if (!facts) return std::unexpected(file_error(facts.error()));
  return fact_of(*facts, path);
}

Answer<wasi::FileFact> make_directories(linux::LiveComputer& computer, const std::string& path) {
  constexpr uint32_t kMode = 0755;
  for (size_t end = 0; end != path.npos;) {
    end = path.find('/', end + 1);
    const std::string part = path.substr(0, end);
    if (part.ends_with('/')) continue;
    if (const auto there = computer.stat(part, true)) {
      if (S_ISDIR(there->mode)) continue;
      return refuse(ApiCode::kInvalidValue, part + " is not a directory");
    }
    if (const Status made = computer.make_directory(part, kMode); !made)
      return std::unexpected(file_error(made.error()));
  }
  return stat_file(computer, path);
}

Answer<std::vector<wasi::FileFact>> act(linux::LiveComputer& computer, const wasi::FileRequest& request) {
  const auto one = [](Answer<wasi::FileFact> fact) -> Answer<std::vector<wasi::FileFact>> {
    if (!fact) return std::unexpected(fact.error());
    return std::vector<wasi::FileFact>{*std::move(fact)};
  };
  switch (request.act) {
    case wasi::FileAct::kTellTime: return std::vector<wasi::FileFact>();
    case wasi::FileAct::kStat: return one(stat_file(computer, request.path));
    case wasi::FileAct::kList: return list_files(computer, request.path, request.is_deep);
    case wasi::FileAct::kMakeDirectory: return one(make_directories(computer, request.path));
    case wasi::FileAct::kMove: {
      if (const Status moved = computer.move(request.path, request.to); !moved)
        return std::unexpected(file_error(moved.error()));
      return one(stat_file(computer, request.to));
    }
    case wasi::FileAct::kRemove: break;
  }
  const Status removed = computer.remove(request.path, request.is_deep);
  if (removed) return std::vector<wasi::FileFact>();
  ApiError error = file_error(removed.error());
  if (error.code == ApiCode::kInvalidValue && !request.is_deep) {
    error.code = ApiCode::kConflict;
    error.hint = "Remove a directory that is not empty with recursive=true.";
  }
  return std::unexpected(std::move(error));
}

// -- processor time -----------------------------------------------------------------------------------------------------

// From the text of /proc/ID/stat: the CPU time of the process and of the children that it waited for.
uint64_t cpu_us_in(std::string_view text) {
  constexpr size_t kFirst = 11, kLast = 14;  // after the name: utime, stime, cutime, cstime
  constexpr uint64_t kUsInTick = 10'000;
  const size_t name_end = text.rfind(')');
  if (name_end == text.npos) return 0;
  uint64_t ticks = 0;
  size_t at = 0;
  for (const auto part : std::views::split(text.substr(std::min(name_end + 2, text.size())), ' ')) {
    uint64_t value = 0;
    const std::string_view word(part.begin(), part.end());
    if (at >= kFirst && at <= kLast) std::from_chars(word.data(), word.data() + word.size(), value);
    ticks += value;
    if (at++ == kLast) break;
  }
  return ticks * kUsInTick;
}

// For all existing processes.
uint64_t cpu_us_of_all(linux::LiveComputer& computer) {
  constexpr uint64_t kMostTextBytes = 4096;
  uint64_t all = 0;
  const auto listed = computer.list("/proc");
  if (!listed) return 0;
  for (const linux::FileFacts& each : *listed) {
    const std::string name = name_in(each.path);
    if (name.find_first_not_of("0123456789") != name.npos) continue;
    if (const auto text = computer.read_file("/proc/" + name + "/stat", 0, kMostTextBytes))
      all += cpu_us_in(*text);
  }
  return all;
}

// -- the guest ------------------------------------------------------------------------------------------------------

std::vector<std::string> lines_of(const Environment& environment) {
  std::vector<std::string> lines;
  for (const auto& [name, value] : environment) lines.push_back(name + "=" + value);
  return lines;
}

// Refuses grants and limits that a sandbox of this kind cannot enforce.
Answer<void> check_held(const policy::Policy& policy) {
  if (const Status held = computers::check_grants(policy); !held)
    return std::unexpected(api_error(held.error()));
  if (const Status held = computers::check_limits(policy.limits); !held)
    return std::unexpected(api_error(held.error()));
  return {};
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

class LinuxGuest final : public Guest {
 public:
  LinuxGuest(linux::ComputerSource& source, GuestSpec spec, linux::StoredImage image)
      : source_(source),
        spec_(std::move(spec)),
        stored_(std::move(image)),
        mark_(computers::mark_of(stored_)),
        base_environment_(computers::environment_of(stored_.config)),
        base_directory_(computers::directory_of(stored_.config)) {
    if (spec_.authority == nullptr) spec_.authority = std::make_shared<computers::Authority>();
  }

  Answer<void> begin(const std::string& image) {
    linux::LiveSpec spec;
    spec.image = image;
    hold_image(image);
    return make(spec, spec_.policy);
  }
  Answer<void> begin_from(const std::vector<KeptContext>& contexts) {
    for (const KeptContext& kept : contexts) {
      if (!kept.id.empty()) {
        contexts_[kept.id] = std::string(kept.bytes.begin(), kept.bytes.end());
        continue;
      }
      std::shared_ptr<const HostFile> file = kept.file;
      if (file == nullptr) {
        auto made = memory_file_of(kept.bytes);
        if (!made) return std::unexpected(api_error(made.error()));
        file = std::make_shared<const HostFile>(*std::move(made));
      }
      if (const auto held = lie_over_image_of(*file); !held) return held;
      if (const auto made = make_from(*file, spec_.policy); !made) return made;
    }
    if (computer_ != nullptr) return {};
    return refuse(ApiCode::kInvalidValue, "the saved state has no context of its own", "");
  }

  [[nodiscard]] Kind kind() const override { return Kind::kLinux; }
  [[nodiscard]] bool works_by_itself() override {
    const auto usage = computer()->usage();
    return usage && usage->tasks > 0;
  }

  sandbox::Report exec(const GuestTurn& turn) override {
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
    if (const auto sealed = seal(turn, std::move(invocation), computer->platform(), began_in, report);
        !sealed)
      tell_unsealed(sealed.error(), report);
    return report;
  }
  void stop() override { is_stopped_ = true; }
  void end() override {
    is_stopped_ = true;
    if (const auto computer = this->computer()) computer->end();
  }
  void allow() override { is_stopped_ = false; }

  Answer<void> open_context(const std::string& id, const std::string& template_name) override {
    const std::lock_guard lock(mutex_);
    if (!template_name.empty() && template_name != spec_.template_name)
      return refuse(ApiCode::kUnsupported,
                    "a context of a Linux sandbox is a directory in it, without a template of its own",
                    "Remove the template, or create another sandbox.");
    if (contexts_.contains(id)) return refuse(ApiCode::kConflict, "the context " + id + " already exists");
    contexts_[id] = base_directory_;
    return {};
  }
  Answer<void> close_context(const std::string& id) override {
    const std::lock_guard lock(mutex_);
    if (!id.empty() && contexts_.erase(id) > 0) return {};
    return std::unexpected(no_context(id));
  }

  Answer<void> set_environment(const Environment& environment) override {
    if (auto checked = check_environment(environment); !checked) return checked;
    const std::lock_guard lock(mutex_);
    spec_.environment = environment;
    return {};
  }
  // Some limits, the platform and directories belong to the computer: to change them, the sandbox is moved to
  // a new computer.
  Answer<void> set_policy(const policy::Policy& policy, const host::Secrets& secrets) override {
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

  Answer<std::vector<KeptContext>> keep(std::optional<uint64_t> fork) override {
    const auto file = kept_file();
    if (!file) return std::unexpected(file.error());
    std::vector<KeptContext> all = {{"", spec_.template_name, {}, {}, *file}};
    if (!fork) {
      if (const uint64_t bytes = all[0].size_bytes(); bytes > kMostKeptBytes)
        return refuse(ApiCode::kTooLarge,
                      "the sandbox is " + std::to_string(bytes) + " bytes, and " +
                          std::to_string(kMostKeptBytes) + " can be saved",
                      "Remove files, or end processes that have much memory.");
      if (const auto tried = try_out(**file); !tried) return std::unexpected(tried.error());
    }
    const std::lock_guard lock(mutex_);
    for (const auto& [id, directory] : contexts_)
      all.push_back({id, spec_.template_name, {directory.begin(), directory.end()}, {}, nullptr});
    return all;
  }

  Answer<std::string> read_file(const std::string& context, const std::string& path) override {
    if (const auto checked = check(context, path); !checked) return std::unexpected(checked.error());
    const auto computer = this->computer();
    std::string bytes;
    for (;;) {
      const auto piece = computer->read_file(path, bytes.size(), kReadAtOnce);
      if (!piece) return std::unexpected(file_error(piece.error()));
      bytes += *piece;
      if (piece->size() < kReadAtOnce) return bytes;
      if (bytes.size() > kMostFileBytes)
        return refuse(ApiCode::kTooLarge,
                      path + " has more than " + std::to_string(kMostFileBytes) + " bytes",
                      "Read it in parts: head -c and tail -c in the sandbox.");
    }
  }
  // An existing file keeps its mode.
  Answer<void> write_file(const std::string& context, const std::string& path,
                          std::string_view bytes) override {
    constexpr uint32_t kMode = 0644;
    if (const auto checked = check(context, path); !checked) return checked;
    const auto computer = this->computer();
    const auto there = computer->stat(path, true);
    const uint32_t mode = there && S_ISREG(there->mode) ? there->mode & kModeBits : kMode;
    if (const Status written = computer->write_file(path, bytes, mode); !written)
      return std::unexpected(file_error(written.error()));
    return {};
  }
  Answer<void> set_mode(const std::string& path, uint32_t mode) override {
    if (const auto checked = check_path(path); !checked) return checked;
    return file_answer(computer()->set_mode(path, mode & kModeBits));
  }
  Answer<void> make_link(const std::string& path, const std::string& target) override {
    if (const auto checked = check_path(path); !checked) return checked;
    const auto computer = this->computer();
    if (const auto there = computer->stat(path, false); there && !S_ISDIR(there->mode))
      if (auto removed = file_answer(computer->remove(path, false)); !removed) return removed;
    const size_t above = path.rfind('/');
    if (above > 0)
      if (const auto made = make_directories(*computer, path.substr(0, above)); !made)
        return std::unexpected(made.error());
    return file_answer(computer->make_link(path, target));
  }
  Answer<std::string> make_patch(const std::string& directory, const KeptContext* since,
                                 const computers::PatchMemory& memory) override {
    if (const auto checked = check_path(directory); !checked) return std::unexpected(checked.error());
    std::shared_ptr<const linux::Layer> image;
    const linux::HostFile file = image_file();
    if (file) {
      auto opened = linux::Layer::open(dup(file.number()), "the image");
      if (!opened) return std::unexpected(api_error(opened.error()));
      image = *std::move(opened);
    }
    std::unique_ptr<linux::LiveComputer> base;
    if (since != nullptr) {
      auto made = files_of(*since, image.get());
      if (!made) return std::unexpected(made.error());
      base = *std::move(made);
    }
    const computers::PatchLimits limits = patch_limits(memory);
    auto patch = base ? computers::make_patch_since(*base, *computer(), image.get(), directory, limits)
                      : computers::make_patch(*computer(), image.get(), directory, limits);
    if (!patch) return std::unexpected(file_error(patch.error()));
    return std::move(patch->text);
  }
  Answer<std::vector<std::string>> apply_patch(const std::string& directory, std::string_view patch,
                                               const computers::PatchMemory& memory) override {
    if (const auto checked = check_path(directory); !checked) return std::unexpected(checked.error());
    auto applied = computers::apply_patch(*computer(), patch, directory, patch_limits(memory));
    if (!applied) return std::unexpected(file_error(applied.error()));
    return std::move(applied->changed);
  }

  Answer<std::vector<wasi::FileFact>> act_on_files(const std::string& context,
                                                   const wasi::FileRequest& request) override {
    if (const auto checked = check(context, request.path); !checked) return std::unexpected(checked.error());
    if (request.act == wasi::FileAct::kMove)
      if (const auto checked = check_path(request.to); !checked) return std::unexpected(checked.error());
    return act(*computer(), request);
  }
  Answer<void> make_home(const std::string& path) override {
    if (const auto checked = check_path(path); !checked) return checked;
    const auto computer = this->computer();
    if (computer->stat(path, true)) return {};
    const auto user = user_of(stored_.config.user, *computer);
    if (!user) return std::unexpected(api_error(user.error()));
    if (const auto made = make_directories(*computer, path); !made) return std::unexpected(made.error());
    if (const Status owned = computer->set_owner(path, user->user, user->group); !owned)
      return std::unexpected(file_error(owned.error()));
    return {};
  }
  Answer<GuestUsage> usage() override {
    const auto computer = this->computer();
    const auto usage = computer->usage();
    if (!usage) return std::unexpected(computer_error(usage.error()));
    return GuestUsage{.memory_bytes = usage->memory_bytes,
                      .disk_bytes = usage->disk_bytes,
                      .cpu_us = cpu_us_of_all(*computer)};
  }
  Answer<linux::FileFacts> stat_file(const std::string& path, bool follows_links) override {
    if (const auto checked = check_path(path); !checked) return std::unexpected(checked.error());
    auto facts = computer()->stat(path, follows_links);
    if (!facts) return std::unexpected(file_error(facts.error()));
    return *std::move(facts);
  }
  Answer<std::vector<sandbox::ReportFile>> files(const std::string& context) override {
    if (const auto checked = check(context, "/"); !checked) return std::unexpected(checked.error());
    const auto computer = this->computer();
    const auto changes = computer->changes();
    if (!changes) return std::unexpected(computer_error(changes.error()));
    std::vector<sandbox::ReportFile> all;
    for (const linux::ChangedPath& each : *changes) {
      if (each.change == linux::Change::kRemoved || !S_ISREG(each.mode)) continue;
      if (all.size() == kMostListedFiles) break;
      const auto facts = computer->stat(each.path, false);
      if (facts) all.push_back({each.path, facts->size});
    }
    return all;
  }
  [[nodiscard]] std::shared_ptr<host::Flows> flows() const override { return flows_; }

 private:
  static constexpr uint32_t kModeBits = 07777;
  static Answer<void> file_answer(const Status& done) {
    if (!done) return std::unexpected(file_error(done.error()));
    return {};
  }
  static sandbox::Invocation invocation_of(const GuestTurn& turn, const computers::CommandRun& run) {
    sandbox::Invocation invocation;
    invocation.name = turn.name;
    invocation.given_input = turn.stdin_text;
    invocation.has_input = invocation.input_is_live = turn.read_input != nullptr;
    invocation.arguments = run.spec.arguments;
    for (const std::string& each : run.spec.environment)
      invocation.environment.emplace_back(each.substr(0, each.find('=')), each.substr(each.find('=') + 1));
    return invocation;
  }
  // Each exec has a receipt of its own, since several run at a time.
  Answer<void> seal(const GuestTurn& turn, sandbox::Invocation invocation, const std::string& platform,
                    const std::string& directory, const sandbox::Report& report) {
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
  [[nodiscard]] std::shared_ptr<linux::LiveComputer> computer() const {
    const std::lock_guard lock(mutex_);
    return computer_;
  }
  // Another one may take its name.
  void hold_image(const std::string& path) {
    const std::lock_guard lock(mutex_);
    image_ = linux::HostFile(path.empty() ? -1 : open(path.c_str(), O_RDONLY | O_CLOEXEC));
  }
  [[nodiscard]] linux::HostFile image_file() {
    const std::lock_guard lock(mutex_);
    return linux::HostFile(image_ ? fcntl(image_.number(), F_DUPFD_CLOEXEC, 0) : -1);
  }
  [[nodiscard]] std::shared_ptr<computers::Gateway> gateway() const {
    const std::lock_guard lock(mutex_);
    return gateway_;
  }
  [[nodiscard]] std::shared_ptr<computers::DirectoryBroker> directories() const {
    const std::lock_guard lock(mutex_);
    return directories_;
  }
  struct Made {
    std::shared_ptr<computers::Gateway> gateway;
    std::shared_ptr<computers::DirectoryBroker> directories;  // uses the gateway's budget
    std::shared_ptr<linux::LiveComputer> computer;
  };
  Answer<Made> build(linux::LiveSpec spec, const policy::Policy& policy) {
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
  Answer<void> make(const linux::LiveSpec& spec, const policy::Policy& policy) {
    auto made = build(spec, policy);
    if (!made) return std::unexpected(made.error());
    const std::lock_guard lock(mutex_);
    computer_ = std::move(made->computer);
    directories_ = std::move(made->directories);
    gateway_ = std::move(made->gateway);
    return {};
  }
  // The image of the kept sandbox. A kernel process wrote its name, so it must be the name of an image. Runs
  // before anybody has the guest.
  Answer<void> lie_over_image_of(const HostFile& kept) {
    const auto facts = linux::read_kept_facts(kept.number());
    if (!facts || facts->image_digest.empty()) return {};  // errors are found when it is started
    const std::string path = linux::path_of_image(linux::may_be_image(facts->image_name)
                                                      ? facts->image_name
                                                      : stored_.path,  // or was it saved on another machine?
                                                  facts->image_digest);
    hold_image(path);
    if (!image_file())
      return refuse(ApiCode::kConflict, "the image of the sandbox no longer exists",
                    "Import it again under the same name; GET /v1/templates lists the images.");
    if (facts->image_digest != stored_.digest) begin_as(path, facts->image_digest);
    return {};
  }
  // Commands start with the settings of that image, even when its name is gone or belongs to another by now.
  void begin_as(const std::string& path, const std::string& digest) {
    auto image = linux::find_image(path);
    if (!image || image->digest != digest) return;
    if (!stored_.name.empty()) image->name = stored_.name;
    stored_ = *std::move(image);
    mark_ = computers::mark_of(stored_);
    base_environment_ = computers::environment_of(stored_.config);
    base_directory_ = computers::directory_of(stored_.config);
  }
  linux::LiveSpec spec_from(const HostFile& kept, const HostFile& image) {
    linux::LiveSpec spec;
    spec.kept = kept.number();
    spec.image_file = image.number();
    return spec;
  }
  Answer<void> make_from(const HostFile& kept, const policy::Policy& policy) {
    const HostFile image = image_file();
    return make(spec_from(kept, image), policy);
  }
  // Whether it can resume from there; checked before the running one ends.
  Answer<void> try_out(const HostFile& kept) {
    const HostFile image = image_file();
    linux::LiveSpec spec = spec_from(kept, image);
    spec.stands_still = true;
    const policy::Policy policy = [this] {
      const std::lock_guard lock(mutex_);
      return spec_.policy;
    }();
    const auto made = build(spec, policy);
    if (made) return {};
    return refuse(ApiCode::kConflict,
                  "the sandbox cannot be saved in its current state: " + made.error().message,
                  "It continues to run. End unusual processes, and try again.");
  }
  // A sandbox in which nothing runs, with the files of the saved one.
  Answer<std::unique_ptr<linux::LiveComputer>> files_of(const KeptContext& then, const linux::Layer* image) {
    const auto file = memory_file_of(then.bytes);
    if (!file) return std::unexpected(api_error(file.error()));
    const auto facts = linux::read_kept_facts(file->number());
    if (!facts) return std::unexpected(api_error(facts.error()));
    if (facts->image_digest != (image == nullptr ? std::string_view() : image->digest()))
      return refuse(ApiCode::kConflict, "the snapshot and the sandbox began with different images",
                    "Use a snapshot of this sandbox, or of one with the same image.");
    const HostFile image_file = this->image_file();
    linux::LiveSpec spec = spec_from(*file, image_file);
    spec.kept_files_only = true;
    spec.limits.disk_bytes = UINT64_MAX;  // the limit may be smaller by now
    auto made = source_.create(spec);
    if (!made) return std::unexpected(computer_error(made.error()));
    return *std::move(made);
  }
  Answer<std::shared_ptr<const HostFile>> kept_file() {
    auto file = linux::memory_to_keep_in();
    if (!file) return std::unexpected(api_error(file.error()));
    if (const Status kept = computer()->keep(file->number(), linux::LiveComputer::Keep::kAll); !kept)
      return std::unexpected(computer_error(kept.error()));
    auto opened = for_reading(*file);
    if (!opened) return std::unexpected(api_error(opened.error()));
    return std::make_shared<const HostFile>(*std::move(opened));
  }

  Answer<void> check(const std::string& context, const std::string& path) const {
    const std::lock_guard lock(mutex_);
    if (!context.empty() && !contexts_.contains(context)) return std::unexpected(no_context(context));
    return check_path(path);
  }
  static Result<computers::User> user_of(const std::string& who, linux::LiveComputer& computer) {
    return who.empty() ? Result<computers::User>(computers::User()) : computers::find_user(who, computer);
  }
  // The start directory of a turn; in a context of its own, the next turn starts there too. `home` is that of
  // the turn's own user.
  Answer<std::string> directory_for(const GuestTurn& turn, const std::string& home) {
    const std::lock_guard lock(mutex_);
    const auto context = contexts_.find(turn.context);
    if (!turn.context.empty() && context == contexts_.end()) return std::unexpected(no_context(turn.context));
    const std::string& before = context != contexts_.end() ? context->second
                                : home.empty()             ? base_directory_
                                                           : home;
    if (turn.directory.empty()) return before;
    std::string directory = turn.directory.starts_with('/') ? turn.directory : before + "/" + turn.directory;
    if (const auto checked = check_path(directory); !checked) return std::unexpected(checked.error());
    if (context != contexts_.end()) context->second = directory;
    return directory;
  }
  // bash runs code, or sh if there is no bash.
  std::vector<std::string> words_of(linux::LiveComputer& computer, const GuestTurn& turn) {
    if (!turn.command.empty()) return turn.command;
    std::string shell = this->shell(computer);
    std::vector<std::string> words = {shell, "-c", turn.code, turn.name.empty() ? shell : turn.name};
    words.insert(words.end(), turn.arguments.begin(), turn.arguments.end());
    return words;
  }
  std::string shell(linux::LiveComputer& computer) {
    {
      const std::lock_guard lock(mutex_);
      if (!shell_.empty()) return shell_;
    }
    std::string found = computer.stat("/bin/bash", true) ? "/bin/bash" : "/bin/sh";
    const std::lock_guard lock(mutex_);
    return shell_ = std::move(found);
  }

  linux::ComputerSource& source_;
  std::shared_ptr<host::Flows> flows_ = std::make_shared<host::Flows>();
  std::atomic<bool> is_stopped_ = false;
  std::atomic<int> running_ = 0;  // turns
  mutable std::mutex mutex_;      // guards what follows
  GuestSpec spec_;
  linux::StoredImage stored_;
  std::string mark_;  // the image's mark (computers/description.h)
  std::vector<std::string> base_environment_;
  std::string base_directory_;
  std::string shell_;                            // "" until it is determined
  std::map<std::string, std::string> contexts_;  // except the first: their directories
  std::shared_ptr<computers::Gateway> gateway_;
  std::shared_ptr<computers::DirectoryBroker> directories_;  // uses the gateway's budget
  std::shared_ptr<linux::LiveComputer> computer_;
  linux::HostFile image_;  // the initial image, to find changes; none if it started from nothing
};

// -- guests ---------------------------------------------------------------------------------------------------------

class StoredImages final : public ImageCatalog {
 public:
  Result<linux::StoredImage> find(const std::string& name) override {
    if (name.contains('/'))
      return fail(ErrorCode::kInvalidArgument, "linux:" + name + " names no image",
                  "GET /v1/templates lists them.");
    return linux::find_image(name.empty() ? std::string(computers::kUsualImage) : name);
  }
  std::vector<linux::StoredImage> list() override {
    auto images = linux::list_images();
    return images ? *std::move(images) : std::vector<linux::StoredImage>();
  }
};

class GuestsWithLinux final : public Guests {
 public:
  GuestsWithLinux(std::unique_ptr<Guests> others, std::unique_ptr<linux::ComputerSource> source,
                  std::unique_ptr<ImageCatalog> images, std::string why_none)
      : others_(std::move(others)),
        source_(std::move(source)),
        images_(std::move(images)),
        why_none_(std::move(why_none)) {}

  Answer<std::unique_ptr<Guest>> create(const GuestSpec& spec) override {
    if (kind_of_template(spec.template_name) != Kind::kLinux) return others_->create(spec);
    if (const auto checked = check(spec); !checked) return std::unexpected(checked.error());
    const auto image = images_->find(image_of(spec));
    if (!image) {
      ApiError error = api_error(image.error());
      if (error.code == ApiCode::kNotFound) error.code = ApiCode::kInvalidValue;
      return std::unexpected(std::move(error));
    }
    auto guest = std::make_unique<LinuxGuest>(*source_, spec, *image);
    if (const auto begun = guest->begin(image->path); !begun) return std::unexpected(begun.error());
    return guest;
  }
  Answer<std::unique_ptr<Guest>> restore(const GuestSpec& spec,
                                         const std::vector<KeptContext>& contexts) override {
    if (kind_of_template(spec.template_name) != Kind::kLinux) return others_->restore(spec, contexts);
    if (const auto checked = check(spec); !checked) return std::unexpected(checked.error());
    const auto image = images_->find(image_of(spec));  // for the initial settings of commands
    auto guest = std::make_unique<LinuxGuest>(*source_, spec, image ? *image : linux::StoredImage());
    if (const auto begun = guest->begin_from(contexts); !begun) return std::unexpected(begun.error());
    return guest;
  }
  [[nodiscard]] std::vector<TemplateInfo> templates() const override {
    std::vector<TemplateInfo> all = others_->templates();
    if (source_ == nullptr) return all;
    for (const linux::StoredImage& image : images_->list()) {
      if (image.name == computers::kUsualImage)
        all.push_back(
            {std::string(kTemplate), "", "Linux programs, over the image " + image.name, Kind::kLinux});
      all.push_back({std::string(kTemplateOfImage) + image.name, "",
                     "Linux programs, over the image " + image.name, Kind::kLinux});
    }
    return all;
  }
  [[nodiscard]] policy::Limits usual_limits(const std::string& template_name) const override {
    if (kind_of_template(template_name) != Kind::kLinux) return others_->usual_limits(template_name);
    policy::Limits limits = computers::usual_limits();
    bound_limits(limits);
    return limits;
  }

 private:
  static std::string image_of(const GuestSpec& spec) {
    return spec.template_name.size() > kTemplateOfImage.size()
               ? spec.template_name.substr(kTemplateOfImage.size())
               : "";
  }
  [[nodiscard]] Answer<void> check(const GuestSpec& spec) const {
    if (source_ == nullptr)
      return refuse(ApiCode::kUnsupported, "this service has no Linux sandboxes: " + why_none_,
                    "membrane doctor says more; templates of the other kind are there.");
    if (const Status valid = policy::validate(spec.policy); !valid)
      return std::unexpected(api_error(valid.error()));
    if (const auto held = check_held(spec.policy); !held) return held;
    return check_environment(spec.environment);
  }

  const std::unique_ptr<Guests> others_;
  const std::unique_ptr<linux::ComputerSource> source_;
  const std::unique_ptr<ImageCatalog> images_;
  const std::string why_none_;
};

}  // namespace

std::string_view name_of(Kind kind) { return kind == Kind::kLinux ? "linux" : "wasm"; }

Kind kind_of_template(std::string_view template_name) {
  return template_name == kTemplate || template_name.starts_with(kTemplateOfImage) ? Kind::kLinux
                                                                                   : Kind::kWasm;
}

std::unique_ptr<ImageCatalog> stored_images() { return std::make_unique<StoredImages>(); }

std::unique_ptr<Guests> with_linux_guests(std::unique_ptr<Guests> others,
                                          std::unique_ptr<linux::ComputerSource> source,
                                          std::unique_ptr<ImageCatalog> images, const std::string& why_none) {
  return std::make_unique<GuestsWithLinux>(std::move(others), std::move(source), std::move(images), why_none);
}

}  // namespace membrane::service
