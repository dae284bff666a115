#include "worker/answerer.h"

#include <algorithm>
#include <chrono>
#include <tuple>
#include <utility>

#include "sandbox/replayed_grants.h"
#include "sandbox/telling.h"
#include "worker/broker_calls.h"
#include "worker/messages.h"

namespace membrane::worker {
namespace {

using host::Broker;
using host::HostResult;

constexpr uint64_t kLongestPatienceMs = 1000;

std::unexpected<Error> no_question() {
  return fail(ErrorCode::kInvalidInput, "the worker asked what no worker asks");
}

// Reads the arguments that the function takes, and calls it.
template <typename R, typename... Arguments>
Result<std::string> call(Broker& broker, HostResult<R> (Broker::*function)(Arguments...), Reader& in) {
  std::tuple<std::decay_t<Arguments>...> arguments;
  std::apply([&](auto&... each) { (in.read(each), ...); }, arguments);
  if (!in.is_done()) return no_question();
  return bytes_of(std::apply([&](auto&... each) { return (broker.*function)(each...); }, arguments));
}

Result<std::string> http_many(Broker& broker, Reader& in) {
  const auto requests = in.get<std::vector<host::HttpRequest>>();
  if (!in.is_done()) return no_question();
  return bytes_of(broker.http_many(requests));
}

Result<std::string> sql_query(Broker& broker, Reader& in) {
  const auto database = in.get<std::string_view>(), sql = in.get<std::string_view>(),
             parameters = in.get<std::string_view>();
  auto work = in.get<host::Work>();
  if (!in.is_done()) return no_question();
  auto rows = broker.sql_query(database, sql, parameters, work);
  return bytes_of(std::pair(std::move(rows), work));
}

}  // namespace

Answerer::Answerer(const sandbox::RunOptions& options, std::unique_ptr<host::World> world,
                   uint64_t most_memory_bytes)
    : options_(options), world_(std::move(world)), most_memory_bytes_(most_memory_bytes) {
  world_->bound_memory([this] { return left_for_call_; });
  has_ledger_ = world_->note_in(ledger_);
}

void Answerer::bound(std::chrono::steady_clock::time_point end, const std::atomic<bool>* cancel) {
  end_ = end;
  had_late_call_ = false;
  world_->bound(end, cancel);
}

void Answerer::tell_late_call(const policy::Limits& limits, sandbox::Report& report) const {
  using sandbox::Outcome;
  if (!had_late_call_ || (report.outcome != Outcome::kTrapped && report.outcome != Outcome::kRaised)) return;
  report.outcome = Outcome::kTimedOut;
  report.errors = {sandbox::stop_error(Outcome::kTimedOut, limits)};
}

namespace {

bool is_same_line(const host::CallRecord& one, const host::CallRecord& other) {
  const auto words = [](const host::CallRecord& call) {
    return std::tie(call.name, call.code, call.reason, call.grant, call.arguments, call.bytes_in,
                    call.bytes_out);
  };
  return words(one) == words(other);
}

}  // namespace

std::optional<std::string> Answerer::difference(std::span<const host::CallRecord> calls, uint64_t dropped,
                                                bool is_paused, const CallsBefore& before) const {
  if (!has_ledger_) return std::nullopt;
  size_t listed_before = 0;
  for (const host::CallRecord& call : before.calls) {
    if (listed_before == calls.size() || !is_same_line(calls[listed_before], call)) {
      // What never began to go on lists nothing.
      if (calls.empty()) break;
      return "leaves out " + call.name + " of " + call.arguments + ", which was done before";
    }
    ++listed_before;
  }
  return ledger_.difference({.lines = calls.subspan(listed_before),
                             .dropped = dropped - std::min(dropped, before.dropped),
                             .is_full = host::CallLedger::is_full(calls),
                             .is_paused = is_paused,
                             .began_elsewhere = before.began_elsewhere});
}

std::optional<std::string> Answerer::difference(const sandbox::Report& report,
                                                const CallsBefore& before) const {
  if (report.host_calls.size() > host::Dispatcher::kMaxRecords)
    return "lists more host calls than a list has";
  std::vector<host::CallRecord> calls;
  calls.reserve(report.host_calls.size());
  for (const sandbox::HostCallRecord& line : report.host_calls) {
    calls.push_back(sandbox::call_of(line));
    const sandbox::HostCallRecord same = sandbox::line_of(calls.back());
    if (same.allowed != line.allowed || same.error != line.error)
      return "lists " + line.name + " of " + line.arguments + " with a decision that is none";
  }
  return difference(calls, report.host_calls_dropped, report.outcome == sandbox::Outcome::kFrozen, before);
}

void Answerer::tell_calls(const CallsBefore& before, sandbox::Report& report) const {
  report.host_calls.clear();
  for (const host::CallRecord& call : before.calls) report.host_calls.push_back(sandbox::line_of(call));
  for (const host::CallRecord& call : ledger_.lines()) report.host_calls.push_back(sandbox::line_of(call));
  report.host_calls_dropped = before.dropped + ledger_.not_kept();
}

bool Answerer::may_answer(BrokerCall call) const {
  return acts_ || call == BrokerCall::clock_ms || call == BrokerCall::clock_ns ||
         call == BrokerCall::random_bytes;
}

Result<std::string> Answerer::answer_call(Reader& in) {
  const auto what = in.get<BrokerCall>();
  left_for_call_ = std::min(in.get<uint64_t>(), most_memory_bytes_);
  Broker& broker = world_->broker();
  if (!in.ok() || !may_answer(what)) return no_question();
  switch (what) {
#define X(name)                                                  \
  case BrokerCall::name: return call(broker, &Broker::name, in);
    MEMBRANE_BROKER_CALLS(X)
#undef X
    case BrokerCall::http_many: return http_many(broker, in);
    case BrokerCall::sql_query: return sql_query(broker, in);
  }
  return no_question();
}

Result<std::string> Answerer::answer(std::string_view question) {
  Reader in(question);
  const auto done = [&](auto&& act) -> Result<std::string> {
    if (!in.is_done()) return no_question();
    return bytes_of(act());
  };
  const auto what = in.get<Question>();
  if (!in.ok()) return no_question();
  switch (what) {
    case Question::kBroker: {
      auto answered = answer_call(in);
      had_late_call_ = std::chrono::steady_clock::now() >= end_;
      return answered;
    }
    case Question::kDirectories: {
      const auto granted = in.get<std::vector<std::string>>();
      // They go into the journal, at no price: a worker does not choose the words.
      if (granted != sandbox::directories_of(options_.policy)) return no_question();
      return done([&] { return world_->directories(granted); });
    }
    case Question::kLeft: return done([&] { return world_->left(); });
    case Question::kTakeAfter: {
      const auto used = in.get<host::World::Amounts>();
      return done([&] { return world_->take_after(used), true; });
    }
    case Question::kPosition: return done([&] { return world_->position(); });
    case Question::kHasStore: return done([&] { return world_->has_store_in_memory(); });
    case Question::kGoTo: {
      const auto position = in.get<host::World::Position>();
      return done([&] { return world_->go_to(position), true; });
    }
    case Question::kInput: {
      const auto patience_ms = std::min(in.get<uint64_t>(), kLongestPatienceMs);
      return done([&] {
        if (!options_.read_input) return sandbox::InputPiece{.bytes = {}, .is_end = true};
        return sandbox::read_input(options_.read_input, *world_, std::chrono::milliseconds(patience_ms));
      });
    }
  }
  return no_question();
}

}  // namespace membrane::worker
