// The life of sandboxes: creation, running code and keeping files, and the end by their owner, their time to
// live, or the service's end. Knows nothing of HTTP: REST, MCP and E2B's interface are built on it.
//
// A sandbox does one thing at a time, in the order of the requests; waiting requests hold no thread. Longer
// operations answer by a callback, on a thread of the pool (or at once, when refused). Execs of a Linux
// sandbox start in that order, and then run concurrently with everything else.
//
// A sandbox belongs to a tenant. For others it does not exist: kNotFound.
//
// Threads: any.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "service/actor.h"
#include "service/errors.h"
#include "service/exec.h"
#include "service/file_watch.h"
#include "service/guest.h"
#include "service/images.h"
#include "service/kept_guest.h"
#include "service/receipts.h"
#include "service/snapshots.h"
#include "service/watcher.h"
#include "service/work_pool.h"

namespace membrane::service {

struct SandboxSpec {
  std::string template_name = {};  // from Guests::templates(), or the name of a promoted snapshot
  std::string snapshot = {};       // a snapshot's id, instead of template_name
  // Nothing: the snapshot's policy, or else one that grants nothing. The packages of a snapshot stay.
  std::optional<policy::Policy> policy = {};
  Environment environment = {};                 // added to that of a snapshot
  std::optional<uint64_t> ttl_s = {};           // nothing: SandboxesOptions::usual_ttl_s
  std::optional<uint64_t> idle_timeout_s = {};  // nothing: none
  std::map<std::string, std::string> metadata = {};
  std::vector<std::string> labels = {};
  bool seals = false;  // every exec is sealed; not for a snapshot
};

// The fields to change; absent ones stay.
struct SandboxChange {
  std::optional<uint64_t> ttl_s = {};           // from now
  std::optional<uint64_t> idle_timeout_s = {};  // 0: none
  std::optional<std::map<std::string, std::string>> metadata = {};
  std::optional<std::vector<std::string>> labels = {};
  std::optional<uint64_t> if_version = {};  // only if it still has this version
};

// kPaused: stored as images, and inactive until it is resumed. Its time to live continues.
enum class SandboxState : uint8_t { kIdle, kRunning, kPaused };
std::string_view name_of(SandboxState state);
std::optional<SandboxState> state_named(std::string_view name);

// A sandbox's state at one moment. Times are milliseconds since 1970.
struct SandboxInfo {
  std::string id;
  std::string template_name;
  SandboxState state = SandboxState::kIdle;
  int64_t created_at_ms = 0;
  int64_t last_used_at_ms = 0;
  int64_t expires_at_ms = 0;
  std::optional<uint64_t> idle_timeout_s;
  std::map<std::string, std::string> metadata;
  std::vector<std::string> labels;
  uint64_t version = 1;     // incremented by each change of its owner
  uint64_t execs = 0;       // run in it and in its ancestors
  std::string parent = {};  // the parent of a fork; "" for none
  bool seals = false;       // every exec gets a receipt
  Kind kind = Kind::kWasm;
  bool has_exec = false;  // a running or waiting one; reading files does not count
};

// What a request does to files, for the audit log.
struct FileChange {
  std::string event;  // "file.written"
  std::map<std::string, std::string> fields;

  // Nothing for an act that changes no file.
  static std::optional<FileChange> of(const wasi::FileRequest& request);
};

struct ContextInfo {
  std::string id;
  std::string template_name;
  int64_t created_at_ms = 0;
};

// A sandbox in images, with everything that another service needs to continue with it. Its state is kPaused,
// or kIdle for one that its next use restores.
struct KeptSandbox {
  std::string tenant;
  SandboxInfo info;
  KeptGuest guest;
  std::vector<ContextInfo> contexts;
  uint64_t ttl_s = 0, memory_bytes = 0, egress_bytes = 0;
  uint64_t forks = 0;  // number of forks made
};

struct SandboxFilter {
  std::optional<SandboxState> state = {};
  std::string label = {};                            // "": any
  std::map<std::string, std::string> metadata = {};  // all of it
  std::string cursor = {};                           // from the previous page; "": from the first
  size_t limit = 100;
};
struct SandboxPage {
  std::vector<SandboxInfo> sandboxes;  // by creation time, then by id
  std::string next_cursor;             // "": last page
};

struct ExecSpec {
  std::string code;
  std::string stdin_text = {};
  std::vector<std::string> arguments = {};
  std::optional<uint64_t> timeout_ms = {};
  std::string name = {};  // these two as in GuestTurn
  bool is_script = false;
  std::string context = {};  // "": the one that exists from the start
  Environment environment = {};
  std::string trace = {};   // the traceparent of its parent span; "": not traced
  bool open_stdin = false;  // Exec::write_input() adds to stdin_text
  // These four as in GuestTurn: for Linux sandboxes only.
  std::vector<std::string> command = {};
  std::string directory = {};
  std::optional<linux::TerminalSize> terminal = {};
  std::string user = {};
  bool seal = false;                             // make a receipt, even if the sandbox does not seal
  uint64_t other_bytes = 0;                      // kept in memory by the caller, and charged with it
  std::shared_ptr<host::Flows> flows = nullptr;  // as in GuestTurn
  // Called when the program of a Linux sandbox has started, with its process id there; may be null.
  std::function<void(const std::shared_ptr<Exec>&, int process_id)> hear_begun = {};
  // Gets the report before Exec::when_done() is answered; may be null.
  std::function<void(const sandbox::Report&)> hear_report = {};
  Actor actor = {};  // set by Sandboxes::exec()
};

struct SandboxesOptions {
  size_t threads = 8;             // execs and file operations at once
  size_t most_queued = 1'000;     // sandboxes waiting for a thread
  size_t most_waiting = 64;       // pending tasks of one sandbox
  size_t most_at_once = 256;      // running execs of Linux sandboxes
  size_t most_at_once_each = 32;  // of one sandbox
  size_t most_connections = 512;  // open outside connections of all Linux sandboxes of a tenant
  size_t most_sandboxes = 10'000;
  size_t most_of_tenant = 1'000;
  size_t most_kept_execs = 32;           // finished execs of one sandbox
  uint64_t most_kept_bytes = 16u << 20;  // of those: beyond it the oldest are dropped, except the last
  // The limit on a tenant's bytes in memory: execs with the code and input of waiting ones, files on their
  // way to a sandbox, watches, parked sandboxes of no more than most_parked_bytes. (Larger ones are parked on
  // disk.)
  uint64_t most_held_bytes = 256u << 20, most_parked_bytes = 1u << 20;
  size_t most_contexts = 32;           // of one sandbox
  size_t most_input_bytes = 4u << 20;  // unread input of the execs of one sandbox
  size_t most_watches = 16;            // of one sandbox
  size_t most_forks = 256;             // at once
  uint64_t usual_ttl_s = 3'600;
  uint64_t most_ttl_s = 30ull * 24 * 3'600;
  // Parking: a sandbox that nobody uses is stored as its difference from its template, without a process, and
  // restored by its next use. This happens after that long; for the least recently used ones at once, when
  // more than `most_resident` have a process. 0: only when the service ends.
  uint64_t park_after_ms = 5'000;
  size_t most_resident = 256;
  std::function<int64_t()> now_ms = {};  // null: the system's clock
  // The secrets that headers of a policy of this tenant may name; null: there are no secrets.
  std::function<host::Secrets(const std::string& tenant, const policy::Policy& policy)> secrets_of = {};
  Watcher* watcher = nullptr;    // borrowed; null: none
  Receipts* receipts = nullptr;  // borrowed; null: nothing is sealed
  // Observes the http requests of an exec with this trace; null: nobody does.
  std::function<std::shared_ptr<host::EgressWatch>(const std::string& trace)> watch_egress = {};
};

class Sandboxes {
 public:
  // Everything except the options is borrowed.
  Sandboxes(Guests& guests, Images& images, Snapshots& snapshots, SandboxesOptions options);
  // Ends all sandboxes: what runs is stopped.
  ~Sandboxes();

  template <typename T>
  using Then = std::function<void(Answer<T>)>;

  void create(const Actor& actor, SandboxSpec spec, Then<SandboxInfo> then);
  [[nodiscard]] Answer<SandboxInfo> get(const std::string& tenant, const std::string& id);
  [[nodiscard]] Answer<SandboxPage> list(const std::string& tenant, const SandboxFilter& filter);
  [[nodiscard]] Answer<SandboxInfo> update(const Actor& actor, const std::string& id,
                                           const SandboxChange& change);
  // Stops what it runs; answers waiting requests with kNotFound.
  [[nodiscard]] Answer<void> kill(const Actor& actor, const std::string& id);

  // -- as it stands: to bytes and back, and many of it. Errors, besides kNotFound: kUnsupported for what cannot be kept
  // (sandbox/session/session.h); kConflict for a sandbox that is paused, or is not. What it was asked before is done first.
  void pause(const Actor& actor, const std::string& id, Then<SandboxInfo> then);
  void resume(const Actor& actor, const std::string& id, Then<SandboxInfo> then);
  void snapshot(const Actor& actor, const std::string& id, Then<SnapshotInfo> then);
  // Restores a snapshot of the same template, under the sandbox's own policy; its state since then is lost.
  // Errors, in addition: kInvalidValue for a missing snapshot; kConflict for one of another template, or with
  // more contexts than it has memory for; kUnsupported for a sandbox that seals.
  void reset(const Actor& actor, const std::string& id, const std::string& snapshot, Then<SandboxInfo> then);
  // Creates independent copies of the current state, each with its own randomness; they have the sandbox's
  // settings, and its time to live from now. All or none.
  void fork(const Actor& actor, const std::string& id, size_t count, Then<std::vector<SandboxInfo>> then);

  // As Snapshots has them, with a record in the audit log.
  Answer<SnapshotInfo> promote_snapshot(const Actor& actor, const std::string& snapshot,
                                        const std::string& name);
  Answer<void> remove_template(const Actor& actor, const std::string& name);
  Answer<void> remove_snapshot(const Actor& actor, const std::string& snapshot);

  void open_context(const Actor& actor, const std::string& id, std::string template_name,
                    Then<ContextInfo> then);
  void close_context(const Actor& actor, const std::string& id, std::string context, Then<void> then);
  [[nodiscard]] Answer<std::vector<ContextInfo>> contexts(const std::string& tenant, const std::string& id);

  void set_environment(const Actor& actor, const std::string& id, Environment environment,
                       Then<SandboxInfo> then);
  [[nodiscard]] Answer<policy::Policy> policy(const std::string& tenant, const std::string& id);
  // Comes before waiting requests. What runs is stopped, with the outcome kCancelled, so that nothing happens
  // any more that the policy does not grant. The packages stay. Errors: kForbidden for a policy that grants
  // more, without `may_widen`.
  void set_policy(const Actor& actor, const std::string& id, policy::Policy policy, bool may_widen,
                  Then<SandboxInfo> then);

  // Queues an exec: Exec::when_done() and Exec::events() report its progress. Errors: kTooManyRequests for a
  // sandbox with too many requests, and for a tenant whose execs hold too much. If it is to be sealed:
  // kConflict for a session that does not seal; kUnsupported without receipts; those of Receipts.
  [[nodiscard]] Answer<std::shared_ptr<Exec>> exec(const Actor& actor, const std::string& id, ExecSpec spec);
  // The kept execs, oldest first.
  [[nodiscard]] Answer<std::vector<std::shared_ptr<Exec>>> list_execs(const std::string& tenant,
                                                                      const std::string& id);
  [[nodiscard]] Answer<std::shared_ptr<Exec>> find_exec(const std::string& tenant, const std::string& id,
                                                        const std::string& exec);
  // For a running exec of a Linux sandbox. Errors: those of find_exec(), Exec::signal() and Exec::resize().
  [[nodiscard]] Answer<void> signal_exec(const std::string& tenant, const std::string& id,
                                         const std::string& exec, int number);
  [[nodiscard]] Answer<void> resize_exec(const std::string& tenant, const std::string& id,
                                         const std::string& exec, linux::TerminalSize size);
  // Errors: those of find_exec() and Exec::write_input(); kTooManyRequests when the execs of the sandbox have
  // too much unread input.
  [[nodiscard]] Answer<void> write_input(const std::string& tenant, const std::string& id,
                                         const std::string& exec, std::string_view bytes, bool is_end);
  // Ends it, whether it runs or waits; does nothing if it is over.
  [[nodiscard]] Answer<void> cancel_exec(const Actor& actor, const std::string& id, const std::string& exec);

  // Requests of running programs that wait for approval (exec.h): one at most.
  [[nodiscard]] Answer<std::vector<PendingApproval>> approvals(const std::string& tenant,
                                                               const std::string& id);
  // Errors: kNotFound for one that no longer waits.
  [[nodiscard]] Answer<PendingApproval> decide(const std::string& tenant, const std::string& id,
                                               const std::string& approval, bool allow);

  // For a context's files: "" for the context that exists from the start.
  void read_file(const Actor& actor, const std::string& id, std::string context, std::string path,
                 Then<std::string> then);
  void write_file(const Actor& actor, const std::string& id, std::string context, std::string path,
                  std::string bytes, Then<void> then);
  void list_files(const Actor& actor, const std::string& id, std::string context,
                  Then<std::vector<sandbox::ReportFile>> then);
  void act_on_files(const Actor& actor, const std::string& id, std::string context, wasi::FileRequest request,
                    Then<std::vector<wasi::FileFact>> then);
  // Watches a directory for changes from now on.
  void watch_files(const Actor& actor, const std::string& id, std::string context, std::string path,
                   Then<std::shared_ptr<BodySource>> then);
  // Charges bytes of the service's memory to the tenant until the Hold is destroyed. Finished execs of the
  // tenant are forgotten to make room. Errors: kTooManyRequests.
  Answer<HeldBytes::Hold> hold(const std::string& tenant, uint64_t bytes);

  // Guest::make_patch(); `since` is the id of a snapshot, or "". The memory that a patch takes is charged to
  // the tenant while it is made. Errors: also kInvalidValue for a missing snapshot; those of hold().
  void make_patch(const Actor& actor, const std::string& id, std::string directory, std::string since,
                  Then<std::string> then);
  // Guest::apply_patch(), for a patch that must live until `then` was called; returns the number of changed
  // files.
  void apply_patch(const Actor& actor, const std::string& id, std::string directory, std::string_view patch,
                   Then<size_t> then);
  // Several file operations with nothing else in between. `change`: what they do to files, if they succeed.
  void with_files(const Actor& actor, const std::string& id, std::function<Answer<std::string>(Guest&)> act,
                  Then<std::string> then, std::optional<FileChange> change = std::nullopt);

  // -- for the audit log
  // Something else that was done at a request. Errors: those of the log; then the request must fail.
  [[nodiscard]] Answer<void> note(const Actor& actor, std::string_view event,
                                  const std::map<std::string, std::string>& fields);
  // A refused request. Only what the token may not do, and what is beyond a quota, is recorded. `sandbox` may be "".
  void note_refusal(const Actor& actor, const std::string& sandbox, const ApiError& error);

  // Ends sandboxes whose time is over. Call it from time to time; nothing else depends on how often.
  void expire();
  // Parks sandboxes that are due, on threads of the pool. Call it from time to time.
  void park_idle();
  // From now on nothing is created or started; running and waiting execs continue. `when_over`, which may be
  // null, is called once there are none: at once, or on a thread of the pool.
  void drain(std::function<void()> when_over = nullptr);
  // At the service's end, after drain(): cancels the remaining execs, whether they run or wait, with reports
  // that say that the service was stopped. Ends file watches.
  void cancel_execs();
  // At the service's end, after drain(): calls cancel_execs(), and stores in images what can be stored.
  // Returns the number of failures. Waits for `patience`; then calls `end_guests`, which may be null, to end
  // guests that do not answer, and waits as long again for what needs no guest.
  size_t keep_all(std::chrono::milliseconds patience, const std::function<void()>& end_guests = nullptr);
  // Takes over a sandbox of the previous service. On success, also the references to its images. Errors:
  // kNotFound for missing images.
  Status adopt(KeptSandbox kept);

  struct Counts {
    size_t sandboxes = 0, running = 0, queued = 0;
    size_t resident = 0;        // with a process of their own
    uint64_t parked_bytes = 0;  // of those parked in memory
    uint64_t memory_bytes = 0;  // the sum of all limits
  };
  [[nodiscard]] Counts counts() const;
  // The number of sandboxes that the tenant may have at once.
  [[nodiscard]] size_t most_of(const std::string& tenant) const;
  [[nodiscard]] const Guests& guests() const { return guests_; }
  [[nodiscard]] Snapshots& snapshots() { return snapshots_; }
  [[nodiscard]] Receipts* receipts() { return options_.receipts; }  // null: none

 private:
  struct Sandbox;
  // A task of one sandbox; in it the guest is its own, or the sandbox is dead. Returns a notification to call
  // when it is over: its receiver finds the sandbox in the state after the task.
  using Task = std::function<std::function<void()>(Sandbox&)>;

  [[nodiscard]] int64_t now_ms() const;
  [[nodiscard]] Answer<std::shared_ptr<Sandbox>> find(const std::string& tenant, const std::string& id);
  // Reserves room for sandboxes that are about to be created.
  [[nodiscard]] Answer<void> take_room(const std::string& tenant, size_t count,
                                       uint64_t memory_bytes_of_each);
  [[nodiscard]] uint64_t most_of(const Quotas& quotas) const;
  void give_room_back(const std::string& tenant, size_t count, uint64_t memory_bytes_of_each);
  void forget_some_of(const std::string& tenant, size_t count, uint64_t memory_bytes_of_each);
  // Changes what is counted for it. Errors: kQuotaExceeded.
  [[nodiscard]] Answer<void> hold_memory(Sandbox& sandbox, uint64_t memory_bytes);
  void put_in(const std::shared_ptr<Sandbox>& sandbox);
  // What contexts with these limits count for: each has a memory of its own, plus the data for its next
  // receipt if it seals.
  [[nodiscard]] static uint64_t memory_of(const std::string& template_name, const policy::Limits& limits,
                                          size_t contexts, bool seals);
  [[nodiscard]] static uint64_t memory_with(const Sandbox& in, size_t more);
  // What a sandbox with this spec will count for.
  [[nodiscard]] uint64_t memory_of(const std::string& tenant, const SandboxSpec& spec) const;
  // A sandbox with a guest, before it is published.
  struct Made {
    std::unique_ptr<Guest> guest;
    GuestSpec spec;
    std::vector<ContextInfo> contexts;
  };
  [[nodiscard]] static uint64_t memory_of(const Made& made);
  // The error for a template that cannot be created: for an unknown name, with the most similar one.
  // `promoted` are names in addition to the guests'.
  [[nodiscard]] ApiError error_of_template(const std::string& name, std::vector<std::string> promoted,
                                           const ApiError& error) const;
  [[nodiscard]] std::vector<std::string> promoted_names(const std::string& tenant) const;
  Answer<Made> make_guest(const std::string& tenant, const SandboxSpec& spec);
  Answer<Made> make_guest_of(const std::string& tenant, const SandboxSpec& spec, const Snapshot& snapshot);
  // Adds what its tenant provides: secrets, and a share of the connections.
  [[nodiscard]] GuestSpec for_tenant(const std::string& tenant, GuestSpec spec);
  static uint64_t memory_of_fork(Sandbox& of);
  std::shared_ptr<Sandbox> fork_of(Sandbox& of, Made made);
  Answer<std::vector<SandboxInfo>> put_forks(Sandbox& of, std::vector<Made> made, uint64_t took_us);
  Answer<void> go_back(Sandbox& in, const std::string& to);
  Answer<std::vector<Made>> fork_guest(Sandbox& sandbox, size_t count);
  Then<SandboxInfo> as_it_stands(const Actor& actor, const std::string& id, Then<SandboxInfo> then);
  // kIdle: does not count as a use of the sandbox, and is refused while it has anything to do. kAtEnd: last,
  // however much there is to do.
  enum class Turn : uint8_t { kLast, kNext, kIdle, kAtEnd };
  [[nodiscard]] Answer<void> post(const std::shared_ptr<Sandbox>& sandbox, Task task,
                                  Turn turn = Turn::kLast);
  void work_on(const std::shared_ptr<Sandbox>& sandbox);
  // Under its mutex: whether its execs may have that much more unread input. Errors: kTooManyRequests.
  [[nodiscard]] Answer<void> has_room_for_input(const Sandbox& in, size_t bytes) const;
  // Whether an exec can be sealed now, if that is requested or the sandbox seals all.
  [[nodiscard]] Answer<void> check_seal(const std::string& tenant, Sandbox& sandbox, bool is_wanted);
  // How an exec of a sandbox is sealed; nothing when it is not.
  [[nodiscard]] Answer<std::optional<TurnSeal>> seal_of(Sandbox& sandbox, const std::shared_ptr<Exec>& exec,
                                                        const ExecSpec& spec);
  // Held by an exec until its report was delivered.
  using Unfinished = std::shared_ptr<void>;
  // Errors: kDraining.
  [[nodiscard]] Answer<Unfinished> count_exec();
  void end_of_exec();
  [[nodiscard]] std::vector<std::shared_ptr<Sandbox>> all_sandboxes() const;
  // An exec that a task has started. `report` is set when nothing is to be run.
  struct Begun {
    std::shared_ptr<Exec> exec;
    ExecSpec spec;
    std::chrono::steady_clock::time_point began;
    uint64_t waited_us = 0;
    std::optional<TurnSeal> seal = {};
    bool seals_alone = false;
    std::shared_ptr<Guest> guest = nullptr;
    bool is_at_once = false;
    Answer<std::optional<uint64_t>> fuel = {};
    sandbox::Report report = {};
  };
  Begun begin(Sandbox& sandbox, const std::shared_ptr<Exec>& exec, ExecSpec spec, uint64_t waited_us);
  void perform(Sandbox& sandbox, Begun& begun) const;
  // Returns the notification to call.
  std::function<void()> conclude(Sandbox& sandbox, Begun begun);
  std::function<void()> run(const std::shared_ptr<Sandbox>& sandbox, const std::shared_ptr<Exec>& exec,
                            ExecSpec spec, uint64_t waited_us, const Unfinished& unfinished);
  std::function<void()> run_at_once(const std::shared_ptr<Sandbox>& sandbox, Begun begun,
                                    const Unfinished& unfinished);
  // Called by a task: ends concurrent execs, and waits until they are over.
  static void end_at_once(Sandbox& in);
  static void stop_all_that_runs(Sandbox& in);
  static Answer<void> check_command(const Sandbox& in, const ExecSpec& spec);
  // Creates an exec that holds its request. The oldest finished ones make room for it. Errors:
  // kTooManyRequests.
  Answer<std::shared_ptr<Exec>> begin_exec(const std::string& tenant, const std::string& id, ExecSpec& spec);
  // Forgets a sandbox's finished execs that are too many or hold too much; under its mutex.
  void forget_old_execs(Sandbox& in) const;
  // Forgets the oldest finished execs of a tenant, until there is room for that much more, and some.
  void make_room(const std::string& tenant, uint64_t bytes);
  // Like hold(), for an existing one.
  Answer<void> grow(HeldBytes::Hold& hold, const std::string& tenant, uint64_t bytes);
  [[nodiscard]] bool is_over(const Sandbox& sandbox, int64_t now) const;
  [[nodiscard]] SandboxInfo info_of(Sandbox& sandbox) const;
  void end(Sandbox& sandbox);
  void let_go(Sandbox& sandbox);
  // What `act` takes is charged to the tenant. Errors: also those of hold().
  template <typename T>
  Answer<T> with_patch_memory(const std::string& tenant,
                              const std::function<Answer<T>(const computers::PatchMemory&)>& act);
  Answer<std::string> make_patch_of(Guest& guest, const std::string& tenant, const std::string& directory,
                                    const std::string& since, const computers::PatchMemory& memory);
  // Called by a task: its guest, restored if it is parked. Errors: kConflict when it is paused; those of
  // Guests::restore().
  Answer<Guest*> wake(Sandbox& in);
  Answer<Guest*> bring_back(Sandbox& in);
  // Called by a task, for a sandbox with a guest: its contexts as bytes.
  static Answer<std::vector<KeptContext>> kept_contexts(Sandbox& in);
  // Called by a task: moves a guest, or bytes in memory, into images.
  Answer<void> put_away(Sandbox& in, bool is_paused, const std::vector<KeptContext>& contexts);
  Answer<void> put_away(Sandbox& in, bool is_paused);
  void park(Sandbox& in);
  static void cancel_all(Sandbox& in);
  Answer<void> write_change(Sandbox& in);
  // Under its mutex. `info` is that of the sandbox.
  static KeptSandbox kept_of(const Sandbox& in, SandboxInfo info, KeptGuest guest);
  static bool is_due(const Sandbox& in, int64_t now, uint64_t after_ms);
  static SandboxInfo info_under_lock(const Sandbox& in);
  // Of a running task, for the one who asked for it.
  Answer<void> note(const Sandbox& in, std::string_view event,
                    std::map<std::string, std::string> fields = {});
  template <typename T>
  Then<T> noting_refusal(const Actor& actor, const std::string& id, Then<T> then);
  void look_for_watches(Sandbox& sandbox);
  // Runs `act` as a task of the sandbox, whether it is paused or not; never when it is dead.
  template <typename T>
  void with_sandbox(const Actor& actor, const std::string& id, Then<T> then,
                    std::function<Answer<T>(Sandbox&)> act, Turn turn = Turn::kLast);
  template <typename T>
  void with_guest(const Actor& actor, const std::string& id, Then<T> then,
                  std::function<Answer<T>(Guest&)> act, std::optional<FileChange> change = std::nullopt);

  Guests& guests_;
  Images& images_;
  Snapshots& snapshots_;
  const SandboxesOptions options_;
  Watcher& watcher_;
  mutable std::mutex mutex_;  // guards what follows; locked before a Sandbox's own
  std::map<std::string, std::shared_ptr<Sandbox>, std::less<>> sandboxes_;  // by id
  struct Held {
    size_t sandboxes = 0;
    uint64_t memory_bytes = 0;  // the sum of their limits
  };
  std::map<std::string, Held> of_tenant_;  // including those being created
  size_t being_made_ = 0;
  bool draining_ = false;
  size_t unfinished_execs_ = 0;
  std::function<void()> when_execs_are_over_;  // while draining with unfinished execs
  std::atomic<bool> is_stopping_ = false;      // cancelled execs were cancelled by the service's end
  std::atomic<bool> is_ending_ = false;        // images are kept for the next service
  std::shared_ptr<HeldBytes> held_;
  std::mutex connections_mutex_;
  std::map<std::string, std::weak_ptr<computers::ConnectionBound>> connections_;  // by tenant
  WorkPool at_once_;  // for execs of Linux sandboxes
  WorkPool pool_;     // last member: its threads end first, and use everything else until then
};

}  // namespace membrane::service
