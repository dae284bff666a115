// Runs guests in worker processes: what sandbox/run/sandbox.h and sandbox/session/session.h do in this process, inside
// the walls of walls.h. Whatever a guest or a worker does, the result is a report.
//
//   Worker::start()    a process of its own, begun early: with one thread, before secrets are in memory
//     .open(spec)      it maps the language's warm image
//     .run(program), .create(spec, options)
//
//   Zygote::start()    a process that opens templates, and from which workers are forked when they are wanted
//     .open(spec), .spawn()
//   Zygote::start_program()    the same, as a program of its own: for a process that has threads and secrets (program.h)
//
// The supervisor is the process that holds these: it answers the worker's requests through a host::World, by
// the policy, and keeps the journal. A worker's clock, fuel and memory are its own claims; so the supervisor
// ends it when it takes longer than allowed, or breaks the protocol.
#pragma once

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <expected>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "sandbox/run/check.h"
#include "sandbox/run/sandbox.h"
#include "sandbox/session/session.h"
#include "sandbox/session/template.h"
#include "worker/channel.h"
#include "worker/walls.h"

namespace membrane::worker {

class Answerer;
struct CallsBefore;
class Zygote;
enum class Kind : uint16_t;  // messages.h

// Threads: any; its commands wait for each other. One thread at a time uses a session.
class Worker : public std::enable_shared_from_this<Worker> {
 public:
  // Errors: kUnavailable when no more processes or sockets can be created.
  static Result<std::shared_ptr<Worker>> start();
  // A child of this process that holds the other end of the socket, whatever program it runs.
  static std::shared_ptr<Worker> adopt(Descriptor socket, Descriptor process, int pid);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Before the walls are up. Errors: kNotFound when the warm image must be created first; those of
  // Template::open(); kUnavailable when the worker is gone.
  Status open(const sandbox::TemplateSpec& spec);
  // The walls that could not be raised; raises them now if necessary. Runs and sessions raise them by
  // themselves.
  const Walls& raise_walls(const WallLimits& limits);

  // Runs an empty turn of each open template without packages, and an empty program, and discards them. The
  // pages of code and images that most guests use are then in place, for which a first guest would wait. Runs
  // inside the walls. Returns the number of templates.
  uint64_t rehearse();

  // Like sandbox::run() and thaw(). Workers do not support RunOptions::functions, but do support
  // guest_functions of sessions: a program's calls of them come to this process, and are answered on the
  // thread of its turn.
  sandbox::Report run(const sandbox::Program& program, const sandbox::RunOptions& options);
  sandbox::Report thaw(std::span<const uint8_t> snapshot, const sandbox::RunOptions& options);
  // Like sandbox::check_program(). Errors: kUnavailable when the worker is gone, or was lost over the
  // program.
  Result<sandbox::CheckAnswer> check(const sandbox::CheckRequest& request);
  // Like Session::create(), for an open template. The session keeps the worker. A fork of it gets a worker of
  // its own, if this one is a zygote's and keep() can save what is forked. Errors: those of
  // Session::create(); kUnavailable when the worker is gone.
  Result<std::unique_ptr<sandbox::Session>> create(const sandbox::TemplateSpec& spec,
                                                   sandbox::RunOptions options);

  // Like Session::restore(), with the same rules.
  Result<std::unique_ptr<sandbox::Session>> restore(const sandbox::TemplateSpec& spec,
                                                    std::span<const uint8_t> kept,
                                                    sandbox::RunOptions options);

  // Where forks of its sessions get workers with the same templates; without it: new ones of its zygote.
  void set_siblings(std::function<Result<std::shared_ptr<Worker>>()> take) { siblings_ = std::move(take); }

  // Whether it can be given commands. If not, whatever ran in it has ended.
  [[nodiscard]] bool is_alive() const { return !is_lost_ && is_own(); }
  [[nodiscard]] std::string problem();
  // Kills it at once.
  void kill();
  // Kills it; reap_ended() waits for its end.
  void end();
  // Waits for the ends of this process's workers and zygotes that were ended or destroyed. A program calls it before it
  // exits: otherwise its dead children go to the first process of its container, which may never reap them.
  static void reap_ended();

 private:
  friend class Zygote;
  friend class RemoteSession;
  class Conversation;

  Worker(Channel channel, Descriptor process, int pid, std::shared_ptr<Zygote> of);
  static Result<std::shared_ptr<Worker>> start_in(const Enclosure& how);

  using Clock = std::chrono::steady_clock;
  struct Command;
  struct Past;
  sandbox::Report run_alone(Kind kind, std::string payload, const sandbox::RunOptions& options,
                            const Past& past);
  // The worker's report of a run, or the error that is reported in its place.
  std::expected<sandbox::Report, sandbox::Report> judge(std::string_view bytes,
                                                        const sandbox::RunOptions& options,
                                                        const Answerer& answerer, const Past& past);
  // Ends it, because `how` its report of a run or turn differs from what is known here.
  sandbox::Report disbelieve(const std::string& how);
  // Returns its answer. Errors: kUnavailable, with what the worker did.
  Result<std::string> command(Command& what);
  Result<std::string> converse(Command& what);
  static std::unexpected<Error> busy();
  static std::unexpected<Error> too_late(const Command& what);
  Error lose(std::string how);
  std::string how_it_ended();
  // False in a fork of the process that started it: the fork may not use or end its parent's workers.
  [[nodiscard]] bool is_own() const { return getpid() == owner_; }
  // For a zygote's worker. Null if there is no room for one.
  [[nodiscard]] std::shared_ptr<Worker> sibling() const;
  void signal(int number) const;

  std::recursive_mutex mutex_;  // guards all below: a command consists of many messages
  Channel channel_;
  Descriptor process_;
  int pid_;  // a child of this process, or its id in its zygote; 0: not a child of this process
  const pid_t owner_ = getpid();
  std::shared_ptr<Zygote> of_;  // null: a child
  std::function<Result<std::shared_ptr<Worker>>()> siblings_;
  bool is_conversing_ = false;
  bool is_reaped_ = false;
  bool has_walls_ = false;
  bool is_limited_ = false;  // its guests' memory limit is already set
  Walls walls_;
  std::atomic<bool> is_lost_ = false;
  std::string problem_;
  std::atomic<uint32_t> last_subject_ = 0;
};

// Threads: any.
class Zygote : public std::enable_shared_from_this<Zygote> {
 public:
  // Errors: those of Worker::start().
  static Result<std::shared_ptr<Zygote>> start();
  // Starts the program at `path`, which is membrane-worker: for a process that already has threads or
  // secrets. Errors: those of start_program() (program.h).
  static Result<std::shared_ptr<Zygote>> start_program(const std::string& path);
  // Opens it for all workers that are spawned from then on. Errors: those of Worker::open().
  Status open(const sandbox::TemplateSpec& spec);
  // Errors: kUnavailable.
  Result<std::shared_ptr<Worker>> spawn();
  // Its process id in this process's namespace, for a control group that should contain it and all of its
  // workers.
  [[nodiscard]] int process() const { return worker_->pid_; }
  // Kills it and all of its workers at once, even hanging ones. Callers that wait for one of them see that it
  // is gone.
  void kill() { worker_->kill(); }
  // False once one of the above found that it has ended.
  [[nodiscard]] bool is_alive() const { return worker_->is_alive(); }

 private:
  friend class Worker;
  explicit Zygote(std::shared_ptr<Worker> worker) : worker_(std::move(worker)) {}
  int end_of(int number);

  std::mutex mutex_;  // guards worker_
  std::shared_ptr<Worker> worker_;
};

}  // namespace membrane::worker
