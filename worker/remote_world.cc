#include "worker/remote_world.h"

#include <unistd.h>

#include <utility>

#include "worker/broker_calls.h"
#include "worker/messages.h"

namespace membrane::worker {
namespace {

using host::HostResult;

template <typename T>
T read_answer(const std::string& bytes) {
  Reader in(bytes);
  T value = in.get<T>();
  if (!in.is_done()) _exit(1);  // the supervisor is of another build, or worse
  return value;
}

class RemoteWorld final : public host::World, private host::Broker {
 public:
  RemoteWorld(Link& link, uint32_t subject, const SaidAlong& said)
      : link_(link), subject_(subject), said_(said) {}

  Broker& broker() override { return *this; }

  // The supervisor's clock and flag bound its calls.
  void bound(std::chrono::steady_clock::time_point /*end*/, const std::atomic<bool>* /*cancel*/) override {}
  void bound_memory(std::function<uint64_t()> left_for_call) override {
    left_for_call_ = std::move(left_for_call);
  }
  void refill(const policy::Limits& /*limits*/) override {}
  void go_on() override {}
  Amounts left() override { return ask<Amounts>(Question::kLeft); }
  void take_after(const Amounts& used) override { tell(Question::kTakeAfter, used); }
  bool take_host_call() override { return true; }  // the supervisor counts those of functions
  void give_back_host_call() override {}
  // The supervisor bounds them by its own count.
  void bound_queries(uint64_t /*fuel*/) override {}
  uint64_t query_fuel_used(bool /*is_over*/) override { return 0; }

  Position position() override {
    return said_.sources ? said_.sources->position : ask<Position>(Question::kPosition);
  }
  void go_to(const Position& position) override {
    if (!said_.has_gone_to) tell(Question::kGoTo, position);
  }
  bool has_store_in_memory() override {
    return said_.sources ? said_.sources->has_store_in_memory : ask<bool>(Question::kHasStore);
  }

  HostResult<std::vector<std::string>> directories(const std::vector<std::string>& granted) override {
    return ask<HostResult<std::vector<std::string>>>(Question::kDirectories, granted);
  }
  bool note_in(host::CallLedger& /*ledger*/) override { return false; }
  // The same applies to the program's flows under the trifecta rule.
  void note_input() override {}
  void add_flows(const host::FlowState& /*state*/) override {}
  host::FlowState flow_state() override { return {}; }
  std::optional<host::FlowReport> flow_report() override { return std::nullopt; }
  // The supervisor, which has the journal, sees how a replay ends, and counts tokens.
  void end_replay() override {}
  std::optional<std::string> divergence() override { return std::nullopt; }
  uint64_t tokens_used() override { return 0; }

 private:
  template <typename T, typename... Fields>
  T ask(Question question, const Fields&... fields) {
    return read_answer<T>(link_.ask(subject_, bytes_of(question, fields...)));
  }
  template <typename Fields>
  void tell(Question question, const Fields& fields) {
    static_cast<void>(ask<bool>(question, fields));
  }
  template <typename T, typename... Arguments>
  HostResult<T> call(BrokerCall what, const Arguments&... arguments) {
    return ask<HostResult<T>>(Question::kBroker, what, left_for_call_ ? left_for_call_() : UINT64_MAX,
                              arguments...);
  }

  HostResult<host::HttpResponse> http(const host::HttpRequest& request) override {
    return call<host::HttpResponse>(BrokerCall::http, request);
  }
  std::vector<HostResult<host::HttpResponse>> http_many(
      std::span<const host::HttpRequest> requests) override {
    return ask<std::vector<HostResult<host::HttpResponse>>>(
        Question::kBroker, BrokerCall::http_many, left_for_call_ ? left_for_call_() : UINT64_MAX,
        std::vector<host::HttpRequest>(requests.begin(), requests.end()));
  }
  HostResult<std::string> file_read(std::string_view path, uint64_t most_bytes) override {
    return call<std::string>(BrokerCall::file_read, path, most_bytes);
  }
  HostResult<void> file_write(std::string_view path, std::string_view bytes, host::FileMode mode) override {
    return call<void>(BrokerCall::file_write, path, bytes, mode);
  }
  HostResult<std::vector<host::FileInfo>> file_list(std::string_view path) override {
    return call<std::vector<host::FileInfo>>(BrokerCall::file_list, path);
  }
  HostResult<host::FileInfo> file_stat(std::string_view path) override {
    return call<host::FileInfo>(BrokerCall::file_stat, path);
  }
  HostResult<void> file_remove(std::string_view path) override {
    return call<void>(BrokerCall::file_remove, path);
  }
  HostResult<host::OpenedFile> file_open(std::string_view path, const host::FileOpening& how) override {
    return call<host::OpenedFile>(BrokerCall::file_open, path, how);
  }
  HostResult<std::string> file_read_at(host::FileHandle file, uint64_t offset, uint32_t count) override {
    return call<std::string>(BrokerCall::file_read_at, file, offset, count);
  }
  HostResult<void> file_write_at(host::FileHandle file, uint64_t offset, std::string_view bytes) override {
    return call<void>(BrokerCall::file_write_at, file, offset, bytes);
  }
  HostResult<void> file_resize(host::FileHandle file, uint64_t size) override {
    return call<void>(BrokerCall::file_resize, file, size);
  }
  HostResult<host::FileStatus> file_status(host::FileHandle file) override {
    return call<host::FileStatus>(BrokerCall::file_status, file);
  }
  HostResult<void> file_sync(host::FileHandle file) override {
    return call<void>(BrokerCall::file_sync, file);
  }
  HostResult<void> file_close(host::FileHandle file) override {
    return call<void>(BrokerCall::file_close, file);
  }
  HostResult<host::FileStatus> path_status(std::string_view path) override {
    return call<host::FileStatus>(BrokerCall::path_status, path);
  }
  HostResult<host::LinkOnPath> path_find_link(std::string_view path) override {
    return call<host::LinkOnPath>(BrokerCall::path_find_link, path);
  }
  HostResult<void> path_set_times(std::string_view path, const host::FileTimes& times) override {
    return call<void>(BrokerCall::path_set_times, path, times);
  }
  HostResult<void> path_unlink(std::string_view path) override {
    return call<void>(BrokerCall::path_unlink, path);
  }
  HostResult<void> path_rename(std::string_view from, std::string_view to) override {
    return call<void>(BrokerCall::path_rename, from, to);
  }
  HostResult<void> link_make_symbolic(std::string_view target, std::string_view path) override {
    return call<void>(BrokerCall::link_make_symbolic, target, path);
  }
  HostResult<void> link_make_hard(std::string_view from, std::string_view to) override {
    return call<void>(BrokerCall::link_make_hard, from, to);
  }
  HostResult<void> directory_make(std::string_view path) override {
    return call<void>(BrokerCall::directory_make, path);
  }
  HostResult<void> directory_remove(std::string_view path) override {
    return call<void>(BrokerCall::directory_remove, path);
  }
  HostResult<std::string> kv_get(std::string_view key) override {
    return call<std::string>(BrokerCall::kv_get, key);
  }
  HostResult<void> kv_set(std::string_view key, std::string_view value) override {
    return call<void>(BrokerCall::kv_set, key, value);
  }
  HostResult<void> kv_remove(std::string_view key) override { return call<void>(BrokerCall::kv_remove, key); }
  HostResult<std::vector<std::string>> kv_keys(std::string_view prefix) override {
    return call<std::vector<std::string>>(BrokerCall::kv_keys, prefix);
  }
  HostResult<std::string> sql_query(std::string_view database, std::string_view sql,
                                    std::string_view parameters_json, host::Work& work) override {
    using Answer = std::pair<HostResult<std::string>, host::Work>;
    Answer answer =
        ask<Answer>(Question::kBroker, BrokerCall::sql_query, left_for_call_ ? left_for_call_() : UINT64_MAX,
                    database, sql, parameters_json, work);
    work.done = answer.second.done;
    return std::move(answer.first);
  }
  HostResult<host::ChatAnswer> ai_complete(const host::ChatRequest& request) override {
    return call<host::ChatAnswer>(BrokerCall::ai_complete, request);
  }
  HostResult<std::vector<float>> ai_embed(std::string_view text) override {
    return call<std::vector<float>>(BrokerCall::ai_embed, text);
  }
  HostResult<int64_t> clock_ms() override { return call<int64_t>(BrokerCall::clock_ms); }
  HostResult<int64_t> clock_ns() override { return call<int64_t>(BrokerCall::clock_ns); }
  HostResult<std::string> random_bytes(uint32_t count) override {
    return call<std::string>(BrokerCall::random_bytes, count);
  }
  HostResult<std::string> ask(std::string_view question) override {
    return call<std::string>(BrokerCall::ask, question);
  }

  Link& link_;
  const uint32_t subject_;
  const SaidAlong& said_;
  std::function<uint64_t()> left_for_call_;
};

}  // namespace

std::unique_ptr<host::World> make_remote_world(Link& link, uint32_t subject, const SaidAlong& said) {
  return std::make_unique<RemoteWorld>(link, subject, said);
}

}  // namespace membrane::worker
