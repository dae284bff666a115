// The broker that acts: it has the policy, decides each request by it, and executes the request on this machine. For
// the decisions and effects of each part see its own file:
//
//   http        egress/http_egress.h      kv    kv/kv_store.h     clock   clock.h
//   file_*      files/file_access.h       sql   sql/sql_reader.h  random  random.h
//
// Directories, stores, databases and libcurl are opened by the first call that needs them, so that a program pays
// only for what it uses; if opening fails, that call fails with the reason. Bytes and tokens are taken from the
// budget here; host calls are counted by BrokerGate. Every call ends at the run's deadline (deadline.h), except one
// that waits inside the kernel for an unresponsive file system.
//
// Ownership: all constructor arguments are borrowed and must outlive the broker. Threads: one at a time.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "host/broker.h"
#include "host/clock.h"
#include "host/deadline.h"
#include "host/egress/http_egress.h"
#include "host/files/file_access.h"
#include "host/files/room.h"
#include "host/kv/kv_store.h"
#include "host/random.h"
#include "host/sources.h"
#include "host/sql/sql_reader.h"
#include "policy/budget.h"
#include "policy/policy.h"

namespace membrane::host {

class LocalBroker final : public Broker {
 public:
  // `model` and `person` may be null: calls that need them return ENOTSUP. `resolver` null: the system's. `secrets`
  // null: the environment's. `watch` may be null; `sources` null: those of the policy.
  LocalBroker(const policy::Policy& policy, policy::Budget& budget, Model* model, Person* person,
              Resolver* resolver = nullptr, Secrets secrets = nullptr, EgressWatch* watch = nullptr,
              const Sources* sources = nullptr);

  // Sets when host calls must end, in addition to the budget's own deadline; call it before each run or turn.
  // `cancel`, which may be null, ends them at once when it becomes true; it is borrowed.
  void bound(Deadline::Clock::time_point end, const std::atomic<bool>* cancel) {
    deadline_.set_end(end);
    deadline_.set_cancel(cancel);
  }

  // Sets how much host memory a call may use, for calls that use much before they return little (sql); call it
  // before the first call. Without it, each has only its own bound.
  void bound_memory(std::function<uint64_t()> left_for_call) { left_for_call_ = std::move(left_for_call); }

  // The positions of the reproducible sources, for a frozen run. Files, stores and databases belong to the world.
  struct Position {
    uint64_t random_bytes = 0;
    uint64_t clock_readings = 0;
  };
  [[nodiscard]] Position position() const { return {random_.position(), clock_.readings()}; }
  void go_to(const Position& position) {
    random_.go_to(position.random_bytes);
    clock_.skip(position.clock_readings);
  }

  // Whether a key-value store was opened that lives only as long as this broker.
  [[nodiscard]] bool has_store_in_memory() const {
    return kv_ != nullptr && policy_.kv && policy_.kv->path.empty();
  }

  HostResult<HttpResponse> http(const HttpRequest& request) override;
  std::vector<HostResult<HttpResponse>> http_many(std::span<const HttpRequest> requests) override;
  HostResult<std::string> file_read(std::string_view path, uint64_t most_bytes) override;
  HostResult<void> file_write(std::string_view path, std::string_view bytes, FileMode mode) override;
  HostResult<std::vector<FileInfo>> file_list(std::string_view path) override;
  HostResult<FileInfo> file_stat(std::string_view path) override;
  HostResult<void> file_remove(std::string_view path) override;
  HostResult<OpenedFile> file_open(std::string_view path, const FileOpening& how) override;
  HostResult<std::string> file_read_at(FileHandle file, uint64_t offset, uint32_t count) override;
  HostResult<void> file_write_at(FileHandle file, uint64_t offset, std::string_view bytes) override;
  HostResult<void> file_resize(FileHandle file, uint64_t size) override;
  HostResult<FileStatus> file_status(FileHandle file) override;
  HostResult<void> file_sync(FileHandle file) override;
  HostResult<void> file_close(FileHandle file) override;
  HostResult<FileStatus> path_status(std::string_view path) override;
  HostResult<LinkOnPath> path_find_link(std::string_view path) override;
  HostResult<void> link_make_symbolic(std::string_view target, std::string_view path) override;
  HostResult<void> link_make_hard(std::string_view from, std::string_view to) override;
  HostResult<void> path_set_times(std::string_view path, const FileTimes& times) override;
  HostResult<void> path_unlink(std::string_view path) override;
  HostResult<void> path_rename(std::string_view from, std::string_view to) override;
  // As file_list(), with a bound on entries.
  HostResult<std::vector<FileInfo>> path_list(std::string_view path, size_t most_entries);
  // Of a file or directory, without following links; see files/permissions.h.
  HostResult<uint32_t> path_permissions(std::string_view path);
  HostResult<void> path_set_permissions(std::string_view path, uint32_t mode);
  HostResult<Room> path_room(std::string_view path);  // see files/room.h
  HostResult<void> directory_make(std::string_view path) override;
  HostResult<void> directory_remove(std::string_view path) override;
  HostResult<std::string> kv_get(std::string_view key) override;
  HostResult<void> kv_set(std::string_view key, std::string_view value) override;
  HostResult<void> kv_remove(std::string_view key) override;
  HostResult<std::vector<std::string>> kv_keys(std::string_view prefix) override;
  HostResult<std::string> sql_query(std::string_view database, std::string_view sql,
                                    std::string_view parameters_json, Work& work) override;
  HostResult<ChatAnswer> ai_complete(const ChatRequest& request) override;
  HostResult<std::vector<float>> ai_embed(std::string_view text) override;
  HostResult<int64_t> clock_ms() override;
  HostResult<int64_t> clock_ns() override;
  HostResult<std::string> random_bytes(uint32_t count) override;
  HostResult<std::string> ask(std::string_view question) override;

 private:
  HostResult<HttpEgress*> egress();
  [[nodiscard]] uint64_t room_for_answers() const;
  HostResult<FileAccess*> files();
  HostResult<KvStore*> kv();
  HostResult<SqlReader*> database(std::string_view name);
  HostResult<const policy::AiGrant*> ai();
  [[nodiscard]] HostResult<int64_t> asked_ns() const;
  HostResult<void> pay_out(size_t bytes);
  HostResult<void> pay_in(size_t bytes);

  const policy::Policy& policy_;
  policy::Budget& budget_;
  Deadline deadline_;
  std::function<uint64_t()> left_for_call_;
  Model* model_;
  Person* person_;
  SystemResolver system_resolver_;
  Resolver& resolver_;
  Secrets secrets_;
  EgressWatch* const watch_;
  const Sources* const sources_;
  Clock clock_;
  RandomSource random_;
  std::unique_ptr<HttpEgress> egress_;
  std::unique_ptr<FileAccess> files_;
  std::unique_ptr<KvStore> kv_;
  std::map<std::string, std::unique_ptr<SqlReader>, std::less<>> databases_;
};

}  // namespace membrane::host
