#include "worker/inside.h"

#include <malloc.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/kept_descriptors.h"
#include "base/sha256.h"
#include "engine/memory/fault.h"
#include "engine/memory/page_map.h"
#include "engine/memory/region_pool.h"
#include "engine/native/code_arena.h"
#include "packages/provide.h"
#include "sandbox/run/sandbox.h"
#include "sandbox/session/session.h"
#include "worker/link.h"
#include "worker/messages.h"
#include "worker/network_pool.h"
#include "worker/remote_world.h"

namespace membrane::worker {
namespace {

using sandbox::Session;

std::atomic<bool> is_cancelled = false;

void take_over(const SharedLeft& left, policy::Budget& budget) {
  if (left.fuel) budget.set(policy::Resource::kFuel, *left.fuel);
  if (left.wall_ms)
    budget.set_deadline(std::chrono::steady_clock::now() + std::chrono::milliseconds(*left.wall_ms));
}

class Worker {
 public:
  Worker(Descriptor socket, Walls walls)
      : link_(Channel(std::move(socket), UINT32_MAX)), walls_(std::move(walls)) {}

  [[noreturn]] void run() {
    while (true) {
      if (!embedder_) handle(link_.receive());
      else if (const auto command = link_.receive_or_wake(std::array{embedder_.number(), ended_.number()}))
        handle(*command);
      else look_around();
    }
  }
  void watch(Descriptor embedder);

 private:
  void handle(const Frame& command);
  std::string answer(const Frame& command, Reader& in);

  Status open_template(const sandbox::TemplateSpec& spec);
  Walls raise_walls(const WallLimits& limits);
  uint64_t rehearse();
  void warm_up();
  void spawn(uint32_t subject);
  [[noreturn]] void become_worker(Descriptor socket, const Enclosure& how, Walls walls);
  void has_ended(pid_t pid);
  void reap();
  void look_around();
  int end_of(int32_t number);

  // The supervisor's settings for it.
  std::function<sandbox::InputPiece(std::chrono::milliseconds)> input_of(uint32_t subject);
  std::shared_ptr<const sandbox::GuestFunctions> functions_of(const std::string& description,
                                                              uint32_t subject);
  std::shared_ptr<const host::Sources> sources_of(const GuestSources& said, uint32_t subject);
  [[nodiscard]] sandbox::RunOptions options_of(const GuestOptions& said, uint32_t subject);
  static std::unexpected<Error> no_session() {
    return fail(ErrorCode::kInternal, "the worker has no such session");
  }
  // `kept`: the bytes to restore; nothing: the template.
  Status create(uint32_t subject, const GuestOptions& said, const sandbox::TemplateSpec& spec,
                std::optional<std::string_view> kept = {});
  Session* session(uint32_t subject) {
    const auto found = sessions_.find(subject);
    return found == sessions_.end() ? nullptr : found->second.session.get();
  }
  template <typename Act>
  TurnEnd turn(uint32_t subject, const SharedLeft& left, Act act);
  Status fork(uint32_t subject, uint64_t number, uint32_t of_fork);
  std::vector<std::string> complete(uint32_t subject, uint32_t scratch, const std::string& code);

  struct Kept {
    std::unique_ptr<Session> session;
    std::shared_ptr<policy::Budget> budget;  // null: the policy's, for each turn
  };

  Link link_;
  Walls walls_;
  bool is_locked_up_ = false;
  std::vector<std::pair<sandbox::TemplateSpec, std::shared_ptr<const sandbox::Template>>> templates_;
  // For a zygote: how many templates the last worker had, and whether they have been rehearsed here.
  std::optional<size_t> spawned_with_;
  bool is_warm_ = false;
  std::map<uint32_t, Kept> sessions_;
  NetworkPool networks_;                // in a zygote, for its workers
  std::map<pid_t, size_t> network_of_;  // for workers that have not ended
  Descriptor embedder_,
      ended_;  // in a zygote that watches: the watched process; a signalfd for ended workers
  static constexpr size_t kMostEnds = 1000;
  std::map<int32_t, int> ends_;  // of ended workers that were not queried
  uint32_t next_world_ = 0;      // the subject of the next World's requests
  SaidAlong said_;               // sent with the running command
};

void Worker::handle(const Frame& command) {
  is_cancelled = false;
  said_ = {};
  if (!is_locked_up_) reap();
  Reader in(command.payload);
  if (static_cast<Kind>(command.kind) == Kind::kSpawn) {
    spawn(command.subject);
    return;
  }
  const std::string done = answer(command, in);
  if (!in.is_done()) _exit(1);  // the supervisor is from another build
  link_.send(Kind::kDone, command.subject, done);
}

std::string Worker::answer(const Frame& command, Reader& in) {
  const uint32_t subject = command.subject;
  Session* const of = session(subject);
  switch (static_cast<Kind>(command.kind)) {
    case Kind::kOpenTemplate: return bytes_of(open_template(in.get<sandbox::TemplateSpec>()));
    case Kind::kRaiseWalls: {
      const auto limits = in.get<WallLimits>();
      return bytes_of(raise_walls(limits).missing);
    }
    case Kind::kRehearse: return bytes_of(rehearse());
    case Kind::kEndOf: return bytes_of(end_of(in.get<int32_t>()));
    case Kind::kRun: {
      const auto said = in.get<GuestOptions>();
      const auto program = in.get<sandbox::Program>();
      next_world_ = subject;
      return bytes_of(sandbox::run(program, options_of(said, subject)));
    }
    case Kind::kThaw: {
      const auto said = in.get<GuestOptions>();
      const auto snapshot = in.get<std::string_view>();
      next_world_ = subject;
      return bytes_of(sandbox::thaw({reinterpret_cast<const uint8_t*>(snapshot.data()), snapshot.size()},
                                    options_of(said, subject)));
    }
    case Kind::kCreate: {
      const auto said = in.get<GuestOptions>();
      return bytes_of(create(subject, said, in.get<sandbox::TemplateSpec>()));
    }
    case Kind::kRestore: {
      const auto said = in.get<GuestOptions>();
      const auto spec = in.get<sandbox::TemplateSpec>();
      // The session restarts the stream for another key.
      said_.has_gone_to = !said.sources || !said.sources->key;
      return bytes_of(create(subject, said, spec, in.get<std::string_view>()));
    }
    case Kind::kKeep: {
      const auto fork = in.get<std::optional<uint64_t>>();
      const auto position = in.get<host::World::Position>();
      said_.sources = {position, in.get<bool>()};
      return bytes_of(of == nullptr ? Result<std::vector<uint8_t>>(no_session())
                      : fork        ? of->keep_fork(*fork)
                                    : of->keep());
    }
    case Kind::kExec: {
      const auto left = in.get<SharedLeft>();
      auto what = in.get<sandbox::Turn>();
      if (in.get<bool>()) what.read_input = input_of(subject);
      return bytes_of(turn(subject, left, [&](Session& s) { return s.exec(what); }));
    }
    case Kind::kGoOn: {
      const auto left = in.get<SharedLeft>();
      const auto pause = in.get<std::optional<uint64_t>>();
      return bytes_of(turn(subject, left, [&](Session& s) { return s.go_on(pause); }));
    }
    case Kind::kResume: {
      const auto left = in.get<SharedLeft>();
      auto answers = in.get<std::vector<sandbox::FunctionAnswer>>();
      return bytes_of(turn(subject, left, [&](Session& s) { return s.resume(std::move(answers)); }));
    }
    case Kind::kFork: {
      const auto number = in.get<uint64_t>();
      return bytes_of(fork(subject, number, in.get<uint32_t>()));
    }
    case Kind::kComplete: {
      const auto scratch = in.get<uint32_t>();
      return bytes_of(complete(subject, scratch, in.get<std::string>()));
    }
    case Kind::kFiles: return bytes_of(of == nullptr ? std::vector<sandbox::ReportFile>() : of->files());
    case Kind::kReadFile: {
      const auto path = in.get<std::string>();
      return bytes_of(of == nullptr ? host::refuse(host::Errno::kNotFound, "there is no session")
                                    : of->read_file(path));
    }
    case Kind::kPutFile: {
      const auto path = in.get<std::string>();
      const auto bytes = in.get<std::string_view>();
      return bytes_of(
          of == nullptr ? host::HostResult<void>(host::refuse(host::Errno::kNotFound, "there is no session"))
                        : of->put_file(path, bytes));
    }
    case Kind::kActOnFiles: {
      const auto request = in.get<wasi::FileRequest>();
      return bytes_of(of == nullptr ? host::HostResult<std::vector<wasi::FileFact>>(
                                          host::refuse(host::Errno::kNotFound, "there is no session"))
                                    : of->act_on_files(request));
    }
    case Kind::kPrivateBytes: return bytes_of(of == nullptr ? std::nullopt : of->private_bytes());
    case Kind::kAbandon: return bytes_of(of == nullptr ? Status(no_session()) : of->abandon());
    case Kind::kSkipped: return bytes_of(of == nullptr ? uint64_t{0} : of->skipped_ns());
    case Kind::kClose: sessions_.erase(subject); return {};
    case Kind::kCheck: return bytes_of(sandbox::check_program(in.get<sandbox::CheckRequest>()));
    default: _exit(1);  // the supervisor is from another build
  }
}

// -- before the walls are up --------------------------------------------------------------------

Status Worker::open_template(const sandbox::TemplateSpec& spec) {
  for (const auto& [known, opened] : templates_)
    if (known == spec) return {};
  MEMBRANE_ASSIGN(auto opened, packages::find_template(spec));
  // Known from here on, without a library.
  if (opened->waiting() || !spec.layer_path.empty()) MEMBRANE_TRY(opened->files()->digest());
  templates_.emplace_back(spec, std::move(opened));
  return {};
}

Walls Worker::raise_walls(const WallLimits& limits) {
  if (is_locked_up_) return walls_;
  is_locked_up_ = true;
  if (limits.hashes) static_cast<void>(sha256_hex({}));
  engine::hold_page_map();
  engine::native::prepare_arena();
  std::vector<int> kept = KeptDescriptors::instance().numbers();
  kept.push_back(link_.descriptor());
  lock_up(kept, limits, walls_);
  return walls_;
}

// Packages are code that one tenant chose, and an empty turn imports them: none of it runs in the zygote, nor
// in a worker that may be given to another tenant.
bool is_own(const sandbox::TemplateSpec& spec) {
  return spec.layer_path.empty() && spec.layer_key.empty() && spec.imports.empty();
}

uint64_t Worker::rehearse() {
  uint64_t rehearsed = 0;
  sandbox::RunOptions options;
  static_cast<void>(sandbox::run({.source = "(func (export \"main\") (result i32) (i32.const 0))",
                                  .entry = {},
                                  .arguments = {},
                                  .input = {}},
                                 options));
  options.policy.limits = policy::language_limits();
  for (const auto& [spec, opened] : templates_) {
    if (!is_own(spec)) continue;
    if (auto session = Session::create(opened, options)) (*session)->exec({.code = "0"});
    ++rehearsed;
  }
  return rehearsed;
}

// -- sessions --------------------------------------------------------------------------------------

std::function<sandbox::InputPiece(std::chrono::milliseconds)> Worker::input_of(uint32_t subject) {
  return [this, subject](std::chrono::milliseconds patience) {
    const std::string bytes =
        link_.ask(subject, bytes_of(Question::kInput, static_cast<uint64_t>(patience.count())));
    return Reader(bytes).get<sandbox::InputPiece>();
  };
}

std::shared_ptr<const sandbox::GuestFunctions> Worker::functions_of(const std::string& description,
                                                                    uint32_t subject) {
  auto functions = std::make_shared<sandbox::GuestFunctions>();
  functions->description = description;
  functions->call = [this, subject](std::span<const sandbox::FunctionCall> calls,
                                    const sandbox::MustStop& /*the supervisor has its own*/) {
    const std::vector<sandbox::FunctionCall> asked(calls.begin(), calls.end());
    const std::string bytes = link_.ask(subject, bytes_of(Question::kFunctions, asked));
    return Reader(bytes).get<std::vector<sandbox::FunctionAnswer>>();
  };
  return functions;
}

std::shared_ptr<const host::Sources> Worker::sources_of(const GuestSources& said, uint32_t subject) {
  auto sources = std::make_shared<host::Sources>();
  sources->sleep = said.sleep;
  sources->key = said.key;
  sources->skipped_ns = said.skipped_ns;
  sources->sleep_ns = [this, subject](uint64_t ns, const std::function<bool()>& /*must_stop*/) {
    const std::string bytes = link_.ask(subject, bytes_of(Question::kSleep, ns));
    return Reader(bytes).get<bool>();
  };
  return sources;
}

sandbox::RunOptions Worker::options_of(const GuestOptions& said, uint32_t subject) {
  sandbox::RunOptions options;
  options.policy = said.policy;
  options.tier = said.tier;
  if (said.fuel_left) {
    options.budget = std::make_shared<policy::Budget>();
    take_over({said.fuel_left, said.wall_left_ms}, *options.budget);
  }
  options.cancel = &is_cancelled;
  if (said.hears_stdout)
    options.on_stdout = [this, subject](std::string_view text) { link_.write(subject, false, text); };
  if (said.hears_stderr)
    options.on_stderr = [this, subject](std::string_view text) { link_.write(subject, true, text); };
  options.hears_bytes = said.hears_bytes;
  if (said.hears_files)
    options.on_file = [this, subject](std::string_view path, std::string_view bytes) {
      link_.send(Kind::kFile, subject, bytes_of(path, bytes));
    };
  if (said.reads_input) options.read_input = input_of(subject);
  options.input_is_ambient = said.input_is_ambient;
  options.freeze_after_fuel = said.freeze_after_fuel;
  options.packages_by = said.packages_by;
  options.is_single_turn = said.is_single_turn;
  if (said.functions) options.guest_functions = functions_of(*said.functions, subject);
  if (said.sources) options.sources = sources_of(*said.sources, subject);
  if (said.time_zone) options.time_zone = std::make_shared<const host::TimeZone>(*said.time_zone);
  options.on_poll = [this] { link_.flush_if_old(); };
  options.make_world = [this] { return make_remote_world(link_, next_world_, said_); };
  return options;
}

Status Worker::create(uint32_t subject, const GuestOptions& said, const sandbox::TemplateSpec& spec,
                      std::optional<std::string_view> bytes) {
  for (const auto& [known, opened] : templates_) {
    if (known != spec) continue;
    if (said.is_single_turn) engine::RegionPool::instance().keep_none();  // no other guest follows
    next_world_ = subject;
    sandbox::RunOptions options = options_of(said, subject);
    Kept kept{nullptr, options.budget};
    const auto restored = [&] {
      return Session::restore(opened, {reinterpret_cast<const uint8_t*>(bytes->data()), bytes->size()},
                              std::move(options));
    };
    MEMBRANE_ASSIGN(kept.session, bytes ? restored() : Session::create(opened, std::move(options)));
    sessions_.insert_or_assign(subject, std::move(kept));
    return {};
  }
  return fail(ErrorCode::kInternal, "the worker has no such template");
}

template <typename Act>
TurnEnd Worker::turn(uint32_t subject, const SharedLeft& left, Act act) {
  const auto found = sessions_.find(subject);
  if (found == sessions_.end()) return {sandbox::refusal(no_session().error()), std::nullopt, {}};
  Kept& kept = found->second;
  if (kept.budget) take_over(left, *kept.budget);
  TurnEnd end{act(*kept.session), std::nullopt, {}};
  end.paused_at_fuel = kept.session->paused_at_fuel();
  end.waits_for = kept.session->waits_for();
  return end;
}

Status Worker::fork(uint32_t subject, uint64_t number, uint32_t of_fork) {
  const auto found = sessions_.find(subject);
  if (found == sessions_.end()) return no_session();
  next_world_ = of_fork;
  MEMBRANE_ASSIGN(auto made, found->second.session->fork(number));
  sessions_.insert_or_assign(of_fork, Kept{std::move(made), found->second.budget});
  return {};
}

std::vector<std::string> Worker::complete(uint32_t subject, uint32_t scratch, const std::string& code) {
  next_world_ = scratch;
  Session* const of = session(subject);
  return of == nullptr ? std::vector<std::string>() : of->complete(code);
}

// -- a zygote --------------------------------------------------------------------------------------

// A turn copies some hundred pages and returns them; the next turn reuses them: new pages would cost more
// than the turn itself.
void keep_freed_memory() {
  constexpr int kBytes = 8 << 20;
  mallopt(M_MMAP_THRESHOLD, kBytes);
  mallopt(M_TRIM_THRESHOLD, kBytes);
}

// Does once what every worker would do for its first guest: its heap, its function tables and the page tables
// of its images are then copied with the process. Sessions end before a worker is forked, so nothing of one
// is in another. The first worker is forked without this, for a command that needs no other.
void Worker::warm_up() {
  keep_freed_memory();
  if (std::exchange(spawned_with_, templates_.size()) != templates_.size()) is_warm_ = false;
  else if (!std::exchange(is_warm_, true)) rehearse();
  engine::RegionPool::instance().prepare_for_fork();
}

// A worker with everything that this process has opened. Its socket and a process descriptor are sent with
// the answer.
void Worker::spawn(uint32_t subject) {
  warm_up();
  auto ends = Channel::make_pair();
  if (!ends)
    return link_.send(Kind::kDone, subject, bytes_of(Result<int32_t>(std::unexpected(ends.error()))));
  Walls walls;
  const auto network = networks_.enter();
  auto made = new_process(walls);
  if (made && made->pid == 0)
    become_worker(std::move(ends->second), {.has_network = network.has_value()}, std::move(walls));
  networks_.leave();
  if (!made) {
    if (network) networks_.give_back(*network);
    return link_.send(Kind::kDone, subject, bytes_of(Result<int32_t>(std::unexpected(made.error()))));
  }
  if (network) network_of_.insert_or_assign(made->pid, *network);
  const Descriptor process(made->process_file);
  const int along[] = {ends->first.number(), process.number()};
  link_.send(Kind::kDone, subject, bytes_of(Result<int32_t>(made->pid)), along);
}

void Worker::become_worker(Descriptor socket, const Enclosure& how, Walls walls) {
  networks_.close_all();
  enclose(how, walls);
  link_ = Link(Channel(std::move(socket), UINT32_MAX));
  walls_ = std::move(walls);
  ends_.clear();
  embedder_ = Descriptor();
  ended_ = Descriptor();
  if (!engine::native::separate_arena()) _exit(1);
  run();
}

void Worker::has_ended(pid_t pid) {
  const auto found = network_of_.find(pid);
  if (found == network_of_.end()) return;
  networks_.give_back(found->second);
  network_of_.erase(found);
}

// The workers of this zygote that have ended since.
void Worker::reap() {
  int status = 0;
  for (pid_t ended = 0; (ended = waitpid(-1, &status, WNOHANG)) > 0;) {
    has_ended(ended);
    if (ends_.size() == kMostEnds) ends_.erase(ends_.begin());
    ends_.insert_or_assign(ended, status);
  }
}

void Worker::watch(Descriptor embedder) {
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGCHLD);
  sigprocmask(SIG_BLOCK, &ends, nullptr);
  ended_ = Descriptor(signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK));
  if (ended_) embedder_ = std::move(embedder);
}

void Worker::look_around() {
  pollfd embedder{embedder_.number(), POLLIN, 0};
  if (poll(&embedder, 1, 0) != 0) _exit(0);
  signalfd_siginfo ended{};
  while (read(ended_.number(), &ended, sizeof ended) == sizeof ended) {}
  reap();
}

// How a worker of this zygote ended, as in waitpid(); it was killed or ended by itself. -1 for none.
int Worker::end_of(int32_t number) {
  int status = -1;
  if (const auto known = ends_.find(number); known != ends_.end()) status = known->second;
  else if (number <= 0 || waitpid(number, &status, 0) != number) return -1;
  else has_ended(number);
  ends_.erase(number);
  return status;
}

}  // namespace

void work(Descriptor socket, Walls walls, Descriptor embedder) {
  struct sigaction act{};
  act.sa_handler = [](int) { is_cancelled = true; };
  sigaction(SIGUSR1, &act, nullptr);
  for (const int ignored : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGTSTP, SIGXFSZ}) {
    act.sa_handler = SIG_IGN;
    sigaction(ignored, &act, nullptr);
  }
  Worker worker(std::move(socket), std::move(walls));
  if (embedder) worker.watch(std::move(embedder));
  worker.run();
}

}  // namespace membrane::worker
