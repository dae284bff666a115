// The gate between a run and the outside world: every request of a capability passes here.
//
//   capability ─▶ BrokerGate ─▶ budget of host calls ─▶ Broker (policy, world)
//                     └─ the answer, or the refusal, is written to the journal
//   capability ─▶ BrokerGate ─▶ the journal's next entry            (replay: no world at all)
//
// A query that does more than its program can pay for falls short: it is reported as a failure, and the program,
// given more fuel, repeats it. The caller says how much work it can pay, so a query that fell short is a request
// like any other: paid, recorded, and in the journal. Only if the run is continued after it (go_on()), and the very
// next request is the same, the two count as one.
//
// A replay answers each request from the journal if it matches the recorded one: the same function with the same
// arguments, at the same position. The first request that does not match is a divergence: it and all later ones fail
// with EHOST, and divergence() says what happened.
//
// Ownership: everything is borrowed and must outlive the gate. Threads: one at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "host/broker/broker.h"
#include "host/gate/call_ledger.h"
#include "host/gate/flows.h"
#include "host/journal/journal.h"
#include "policy/budget.h"

namespace membrane::host {

class BrokerGate final : public Broker {
 public:
  // Answers come from `world`. `budget` pays a host call for each request, and for each 256 on open files; null:
  // nothing is paid. `record` gets an entry for each request; null: nothing is written or hashed.
  static BrokerGate to_world(Broker& world, policy::Budget* budget, JournalSink* record) {
    return {&world, budget, record, nullptr};
  }
  // Answers come from `journal`. `record`, when given, gets new entries.
  static BrokerGate to_journal(const JournalSource& journal, JournalSink* record = nullptr) {
    return {nullptr, nullptr, record, &journal};
  }

  // Records each request in the ledger from now on. Borrowed; null: none.
  void note_in(CallLedger* ledger) { ledger_ = ledger; }

  // Applies the trifecta rule to each request from now on. Borrowed; null: none.
  void guard_by(FlowGuard* flows) { flows_ = flows; }

  // Limits the fuel that queries may use from now on, whatever each request claims: they are refused when it is used
  // up.
  void bound_queries(uint64_t fuel) { query_fuel_left_ = fuel, query_fuel_used_ = 0; }
  // Fuel used since, without a query that fell short and can be repeated.
  [[nodiscard]] uint64_t query_fuel_used() const { return query_fuel_used_; }

  // A turn begins: a query that fell short in the previous one cannot be repeated.
  void begin_turn() { give_up_what_fell_short(); }
  // The paused run or turn is continued, with more fuel: the last query that fell short may be repeated, once.
  void go_on() {
    if (fell_short_) fell_short_->may_be_made_again = true;
  }
  // The last request fell short. It was paid, and its repetition is free.
  [[nodiscard]] bool is_waited_for() const { return fell_short_.has_value(); }

  // The directories that a program sees before its first request, as text. `granted` is written to the journal if it
  // is not empty; returns the replayed journal's directories, or `granted`. The first call is free; later ones cost
  // a host call each.
  HostResult<std::vector<std::string>> directories(const std::vector<std::string>& granted);

  // The run has ended by itself: a replay whose journal has more entries has diverged.
  void end_replay();
  // A sentence about the request that the replay could not answer, or did not make.
  [[nodiscard]] const std::optional<std::string>& divergence() const { return divergence_; }
  // Entries of the journal that the replay has not requested.
  [[nodiscard]] uint64_t entries_left() const { return replay_ ? replay_->size() - next_ : 0; }
  // Tokens used by the models' answers, as the models counted them.
  [[nodiscard]] uint64_t tokens_used() const { return tokens_used_; }

  HostResult<HttpResponse> http(const HttpRequest& request) override;
  // Writes a journal entry for each request, in order, as http() does: a journal does not record which were
  // concurrent.
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
  BrokerGate(Broker* world, policy::Budget* budget, JournalSink* record, const JournalSource* replay)
      : world_(world), budget_(budget), record_(record), replay_(replay) {}

  struct Request;
  static Request request_of(const HttpRequest& request);
  // A request that did more than its program could pay for.
  struct FellShort {
    std::string_view function;
    std::vector<std::string> arguments;
    uint64_t fuel = 0;              // that it took from query_fuel_left_
    bool is_in_the_replay = false;  // marked as short there
    bool is_in_the_journal = true;  // if entries are written at all
    bool may_be_made_again = false;
  };
  // Whether a request repeats the previous one, which fell short. If not, that one can no longer be repeated.
  bool is_made_again(const Request& request);
  void give_up_what_fell_short();
  // What a request takes from the budget before it is made: a host call, a part of one, or nothing (closing what was
  // opened, which cannot be refused).
  enum class Price : uint8_t { kHostCall, kPartOfOne, kNothing };
  static constexpr uint64_t kPartsOfHostCall = 256;
  // `work`, unless null, is the request's work, including earlier attempts, and part of the answer. Then `act` takes
  // the Work to add to.
  template <typename T, typename Act>
  HostResult<T> pass(const Request& request, Act act, Price price = Price::kHostCall, Work* work = nullptr);
  template <typename T, typename Act>
  HostResult<T> act_on_world(const Request& request, Act act, Price price);
  HostResult<void> pay(Price price);
  // The hash of the request's arguments, if a journal needs it.
  HostResult<std::string> hash_of(const Request& request);
  // Writes the journal entry of an answered request, if there is a journal. Returns the answer.
  template <typename T>
  HostResult<T> keep(const Request& request, std::string arguments_sha256, HostResult<T> answer,
                     uint64_t latency_us, uint64_t fuel);
  template <typename T>
  HostResult<T> answer_from_journal(const Request& request, const std::string& arguments_sha256, Work* work);
  std::unexpected<HostError> diverge(std::string what);
  // What a request read, whatever its program gets.
  template <typename T>
  void note_read(const Request& request, const HostResult<T>& answer);
  // What the program gets.
  template <typename T>
  void note_answer(const Request& request, const HostResult<T>& answer);

  Broker* world_;
  policy::Budget* budget_;
  JournalSink* record_;
  const JournalSource* replay_;
  CallLedger* ledger_ = nullptr;
  FlowGuard* flows_ = nullptr;
  std::vector<HttpHop> hops_;      // of the last http.request
  bool was_approved_ = false;      // of the replayed request
  bool had_fallen_short_ = false;  // of the replayed request
  size_t next_ = 0;
  uint64_t parts_ = 0;       // of a host call, since the last one that was paid
  uint64_t open_files_ = 0;  // whose closing costs nothing
  bool has_listed_directories_ = false;
  uint64_t tokens_used_ = 0;
  std::optional<FellShort> fell_short_;  // the last request
  uint64_t query_fuel_left_ = UINT64_MAX, query_fuel_used_ = 0;
  std::optional<std::string> divergence_;
};

}  // namespace membrane::host
