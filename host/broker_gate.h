// The gate between a run and the world: every request of a capability passes here.
//
//   capability ─▶ BrokerGate ─▶ budget of host calls ─▶ Broker (policy, world)
//                     └─ the answer, or the refusal, is written to the journal
//   capability ─▶ BrokerGate ─▶ the journal's next entry            (replay: no world at all)
//
// A query that does more than its program can pay for falls short: it is reported as a failure, and the program, given
// more fuel, makes it again. The caller says how much that is, so a query that fell short is a request as any other: paid,
// noted, and in the journal. Only when the run is continued after it (go_on()), and the very next request is the same one,
// the two are one.
//
// A replay answers each request from the journal when it is the request that was made then:
// the same function with the same arguments, at the same place. The first that is not is a
// divergence: it and all after it fail with EHOST, and divergence() says what happened.
//
// Ownership: everything is borrowed and must outlive the gate. Threads: one at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "host/broker.h"
#include "host/call_ledger.h"
#include "host/flows.h"
#include "host/journal.h"
#include "policy/budget.h"

namespace membrane::host {

class BrokerGate final : public Broker {
 public:
  // Answers come from `world`. `budget` pays a host call for each request, and for each 256 on open files; null: none is paid.
  // `record` gets an entry for each request; null: nothing is written, and nothing hashed.
  static BrokerGate to_world(Broker& world, policy::Budget* budget, JournalSink* record) {
    return {&world, budget, record, nullptr};
  }
  // Answers come from `journal`. `record`, when given, gets the entries anew.
  static BrokerGate to_journal(const JournalSource& journal, JournalSink* record = nullptr) {
    return {nullptr, nullptr, record, &journal};
  }

  // Notes each request from now on. Borrowed; null: none is noted.
  void note_in(CallLedger* ledger) { ledger_ = ledger; }

  // Holds each request from now on to the trifecta rule. Borrowed; null: there is none.
  void guard_by(FlowGuard* flows) { flows_ = flows; }

  // How much fuel queries may use from now on, whatever is said of each: they are refused when it is gone.
  void bound_queries(uint64_t fuel) { query_fuel_left_ = fuel, query_fuel_used_ = 0; }
  // What they used since, without the one that fell short and can be made again.
  [[nodiscard]] uint64_t query_fuel_used() const { return query_fuel_used_; }

  // A turn begins: what fell short in the one before is not made again.
  void begin_turn() { give_up_what_fell_short(); }
  // The run or the turn was paused, and is continued, with more fuel: what fell short last may be made again, once.
  void go_on() {
    if (fell_short_) fell_short_->may_be_made_again = true;
  }
  // The last request fell short. It was paid, and is not paid again.
  [[nodiscard]] bool is_waited_for() const { return fell_short_.has_value(); }

  // The directories that a program sees before its first request, in words. `granted` is written to the journal when
  // there are any; the answer is what the replayed journal has, or `granted`. Asking once costs nothing; after that each
  // time costs a host call.
  HostResult<std::vector<std::string>> directories(const std::vector<std::string>& granted);

  // The run has ended by itself: a replay whose journal has more entries has left it.
  void end_replay();
  // What the replay could not answer, or did not ask for, as a sentence.
  [[nodiscard]] const std::optional<std::string>& divergence() const { return divergence_; }
  // Entries of the journal that the replay has not asked for.
  [[nodiscard]] uint64_t entries_left() const { return replay_ ? replay_->size() - next_ : 0; }
  // Tokens that the models' answers cost, by their own count.
  [[nodiscard]] uint64_t tokens_used() const { return tokens_used_; }

  HostResult<HttpResponse> http(const HttpRequest& request) override;
  // An entry of the journal for each request, in their order, as http() writes it: a journal does not say which were
  // made at the same time.
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
    uint64_t fuel = 0;              // that it took of query_fuel_left_
    bool is_in_the_replay = false;  // as one that fell short
    bool is_in_the_journal = true;  // that is written, if one is
    bool may_be_made_again = false;
  };
  // Whether a request is the one that fell short before it, and may be made again. If not, that one is given up.
  bool is_made_again(const Request& request);
  void give_up_what_fell_short();
  // What a request takes of the budget before it is made: a host call, part of one, or
  // nothing (closing what was opened, which cannot be refused).
  enum class Price : uint8_t { kHostCall, kPartOfOne, kNothing };
  static constexpr uint64_t kPartsOfHostCall = 256;
  // `work`, unless null, is what the request does, and has done before: it is part of the answer. Then `act` takes the Work
  // that it is to add to.
  template <typename T, typename Act>
  HostResult<T> pass(const Request& request, Act act, Price price = Price::kHostCall, Work* work = nullptr);
  template <typename T, typename Act>
  HostResult<T> act_on_world(const Request& request, Act act, Price price);
  HostResult<void> pay(Price price);
  // The hash of the request's arguments, where a journal needs it.
  HostResult<std::string> hash_of(const Request& request);
  // Writes the entry of a request that was answered, when there is a journal. Gives the answer.
  template <typename T>
  HostResult<T> keep(const Request& request, std::string arguments_sha256, HostResult<T> answer,
                     uint64_t latency_us, uint64_t fuel);
  template <typename T>
  HostResult<T> answer_from_journal(const Request& request, const std::string& arguments_sha256, Work* work);
  std::unexpected<HostError> diverge(std::string what);
  // What was read by a request, whatever its program is told of it.
  template <typename T>
  void note_read(const Request& request, const HostResult<T>& answer);
  // What its program is told.
  template <typename T>
  void note_answer(const Request& request, const HostResult<T>& answer);

  Broker* world_;
  policy::Budget* budget_;
  JournalSink* record_;
  const JournalSource* replay_;
  CallLedger* ledger_ = nullptr;
  FlowGuard* flows_ = nullptr;
  bool was_approved_ = false;      // the replayed request
  bool had_fallen_short_ = false;  // the same
  size_t next_ = 0;
  uint64_t parts_ = 0;       // of a host call, since the last that was paid
  uint64_t open_files_ = 0;  // whose closing costs nothing
  bool has_told_directories_ = false;
  uint64_t tokens_used_ = 0;
  std::optional<FellShort> fell_short_;  // the last request
  uint64_t query_fuel_left_ = UINT64_MAX, query_fuel_used_ = 0;
  std::optional<std::string> divergence_;
};

}  // namespace membrane::host
