#include "worker/answerer.h"

#include <algorithm>
#include <chrono>
#include <tuple>
#include <utility>

#include "sandbox/run/replayed_grants.h"
#include "sandbox/run/report_building.h"
#include "sandbox/run/run_context.h"
#include "sandbox/run/stops.h"
#include "worker/broker_calls.h"
#include "worker/messages.h"

namespace membrane::worker {
namespace {

using host::Broker;
using host::HostResult;

constexpr uint64_t kLongestPatienceMs = 1000;

std::unexpected<Error> no_question() {
  return fail(ErrorCode::kInvalidInput, "the worker sent an invalid request");
}

// Reads the function's arguments and calls it.
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

}  // namespace

Answerer::Answerer(const sandbox::RunOptions& options, std::unique_ptr<host::World> world,
                   uint64_t most_memory_bytes)
    : options_(options), world_(std::move(world)), most_memory_bytes_(most_memory_bytes) {
  world_->bound_memory([this] { return left_for_call_; });
  has_ledger_ = world_->note_in(ledger_);
  bound_queries();
}

void Answerer::begin() {
  ledger_.begin();
  functions_.reset();
  function_lines_.clear();
  acts_ = true;
  bound_queries();
}

void Answerer::go_on() {
  acts_ = true;
  world_->go_on();
}

// The most that a guest can pay with, whatever a worker claims.
void Answerer::bound_queries() {
  world_->bound_queries(options_.budget ? options_.budget->left(policy::Resource::kFuel)
                                        : options_.policy.limits.fuel);
}

void Answerer::bound(std::chrono::steady_clock::time_point end, const std::atomic<bool>* cancel) {
  end_ = end;
  cancel_ = cancel;
  had_late_call_ = false;
  world_->bound(end, cancel);
}

uint64_t Answerer::fuel_used(const sandbox::Report& report) {
  const bool is_over = report.outcome != sandbox::Outcome::kFrozen;
  return std::max(report.fuel_used, world_->query_fuel_used(is_over));
}

void Answerer::tell_late_call(const policy::Limits& limits, Of what, sandbox::Report& report) const {
  using sandbox::Outcome;
  const bool has_failed = report.outcome == Outcome::kTrapped || report.outcome == Outcome::kRaised;
  const bool is_good_run = what == Of::kRun && report.outcome == Outcome::kOk;
  if (!had_late_call_ || (!has_failed && !is_good_run)) return;
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

// For files that are only named: where a grant leads and who may read it is checked when the file is opened.
bool Answerer::grants_file(std::string_view path, bool writes) const {
  const auto components = host::parse_guest_path(path);
  if (!components) return false;
  std::vector<host::FsRule> rules;
  for (const policy::FsGrant& grant : options_.policy.fs)
    if (auto guest = host::parse_guest_path(grant.guest)) rules.push_back({grant, *std::move(guest)});
  const host::FsRule* const rule = host::find_rule(rules, *components);
  return rule != nullptr && (!writes || rule->grant.mode == policy::FsMode::kWrite);
}

std::optional<std::string> Answerer::difference(std::span<const host::CallRecord> calls, uint64_t dropped,
                                                HowItEnds how, const CallsBefore& before) const {
  if (!has_ledger_) return std::nullopt;
  size_t listed_before = 0;
  for (const host::CallRecord& call : before.calls) {
    if (listed_before == calls.size() || !is_same_line(calls[listed_before], call))
      return "leaves out " + call.name + " of " + call.arguments + ", which was done earlier";
    ++listed_before;
  }
  if (dropped < before.dropped) return "leaves out calls that were counted earlier";
  const auto others = without_functions(calls.subspan(listed_before), dropped);
  if (!others) return others.error();
  const auto grants = [this](std::string_view path, bool writes) { return grants_file(path, writes); };
  return ledger_.difference({.lines = *others,
                             .before = calls.first(listed_before),
                             .dropped = dropped - before.dropped,
                             .is_paused = how.is_paused,
                             .may_end_short = how.may_end_short,
                             .has_past = before.has_past || before.began_elsewhere,
                             .began_elsewhere = before.began_elsewhere,
                             .may_have_been_open = grants});
}

std::optional<std::string> Answerer::difference(std::span<const host::CallRecord> calls, uint64_t dropped,
                                                const CallsBefore& before) const {
  return difference(calls, dropped, HowItEnds{.is_paused = true, .may_end_short = true}, before);
}

namespace {

// A run that ends like this may never have resumed.
bool may_not_have_begun(sandbox::Outcome outcome) {
  using enum sandbox::Outcome;
  return outcome == kInvalid || outcome == kFailed || outcome == kCancelled || outcome == kTimedOut ||
         outcome == kOutOfMemory;
}

}  // namespace

std::optional<std::string> Answerer::difference(const sandbox::Report& report,
                                                const CallsBefore& before) const {
  if (report.host_calls.size() > host::Dispatcher::kMaxRecords)
    return "lists more host calls than a list has";
  if (report.host_calls.empty() && report.host_calls_dropped == 0 && ledger_.is_empty() &&
      may_not_have_begun(report.outcome))
    return std::nullopt;
  std::vector<host::CallRecord> calls;
  calls.reserve(report.host_calls.size());
  for (const sandbox::HostCallRecord& line : report.host_calls) {
    calls.push_back(sandbox::call_of(line));
    const sandbox::HostCallRecord same = sandbox::line_of(calls.back());
    if (same.allowed != line.allowed || same.error != line.error)
      return "lists " + line.name + " of " + line.arguments + " with an invalid decision";
  }
  using enum sandbox::Outcome;
  const bool is_paused = report.outcome == kFrozen || report.outcome == kWaiting;
  const bool may_end_short = is_paused || report.outcome == kOutOfFuel || report.outcome == kTimedOut ||
                             report.outcome == kCancelled;
  return difference(calls, report.host_calls_dropped, HowItEnds{is_paused, may_end_short}, before);
}

void Answerer::complete(const CallsBefore& before, sandbox::Report& report) {
  if (!report.host_calls.empty() || report.outcome == sandbox::Outcome::kInvalid) return;
  for (const host::CallRecord& call : before.calls) report.host_calls.push_back(sandbox::line_of(call));
  report.host_calls_dropped = std::max(report.host_calls_dropped, before.dropped);
}

void Answerer::write_calls(const CallsBefore& before, sandbox::Report& report) const {
  report.host_calls.clear();
  for (const host::CallRecord& call : before.calls) report.host_calls.push_back(sandbox::line_of(call));
  for (const host::CallRecord& call : ledger_.lines()) report.host_calls.push_back(sandbox::line_of(call));
  for (const host::CallRecord& call : function_lines_) report.host_calls.push_back(sandbox::line_of(call));
  report.host_calls_dropped = before.dropped + ledger_.not_kept();
  report.flows = world_->flow_report();
}

// A session that ends while its turn is paused closes its files.
bool Answerer::may_answer(BrokerCall call) const {
  return acts_ || call == BrokerCall::clock_ms || call == BrokerCall::clock_ns ||
         call == BrokerCall::random_bytes || (call == BrokerCall::file_close && ledger_.has_open_files());
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
    case BrokerCall::sql_query: return answer_query(in);
  }
  return no_question();
}

// The guest's fuel is the worker's claim, and the supervisor's bound applies in addition. A call makes one
// query, so nothing was used before it.
Result<std::string> Answerer::answer_query(Reader& in) {
  const auto database = in.get<std::string_view>(), sql = in.get<std::string_view>(),
             parameters = in.get<std::string_view>();
  auto work = in.get<host::Work>();
  if (!in.is_done() || work.done != 0) return no_question();
  auto rows = world_->broker().sql_query(database, sql, parameters, work);
  return bytes_of(std::pair(std::move(rows), work));
}

// -- functions of the embedder ------------------------------------------------------------------------------

std::vector<sandbox::FunctionAnswer> Answerer::call_functions(std::span<const sandbox::FunctionCall> calls) {
  if (must_stop())  // a resumed worker gets nothing done for it
    return std::vector(calls.size(), sandbox::FunctionAnswer::error("", "the turn is to end"));
  functions_ = {
      {calls.begin(), calls.end()},
      sandbox::answer_paid_calls(*options_.guest_functions, *world_, calls, [this] { return must_stop(); })};
  std::vector<sandbox::FunctionAnswer> answers = functions_->answers;
  list_functions();
  return answers;
}

void Answerer::take_answers(std::vector<sandbox::FunctionAnswer> answers) {
  if (!functions_) return;
  sandbox::fill_in(*functions_, std::move(answers));
  list_functions();
}

// Once all calls that were made at once have answers, as in a session.
void Answerer::list_functions() {
  constexpr size_t kMostLines = host::Dispatcher::kMaxRecords;
  if (sandbox::is_waiting(*functions_)) return;
  for (size_t i = 0; i < functions_->calls.size() && function_lines_.size() < kMostLines; ++i)
    function_lines_.push_back(sandbox::line_of(functions_->calls[i], functions_->answers[i], 0));
  functions_.reset();
}

// -- sleeps that the embedder lets pass -----------------------------------------------------------------------

bool Answerer::asks_for_sleep() const {
  return options_.sources != nullptr && options_.sources->sleep == host::Sources::Sleep::kAsked &&
         options_.sources->sleep_ns != nullptr;
}

bool Answerer::must_stop() const { return sandbox::stop_requested(cancel_, end_).has_value(); }

std::expected<std::vector<host::CallRecord>, std::string> Answerer::without_functions(
    std::span<const host::CallRecord> lines, uint64_t dropped) const {
  std::vector<host::CallRecord> others;
  size_t listed = 0;
  for (const host::CallRecord& line : lines) {
    const bool is_next = listed < function_lines_.size() && is_same_line(line, function_lines_[listed]);
    if (is_next) ++listed;
    else others.push_back(line);
  }
  if (listed < function_lines_.size() && dropped == 0)
    return std::unexpected("leaves out " + function_lines_[listed].name + ", a function that was called");
  return others;
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
      // Recorded in the journal, free of charge the first time: a worker does not choose the words. A run
      // asks once, when it begins; a session, when it is created, before its turns.
      if (granted != sandbox::directories_of(options_.policy)) return no_question();
      if (std::exchange(has_listed_directories_, true) && !acts_) return no_question();
      return done([&] { return world_->directories(granted); });
    }
    case Question::kLeft: return done([&] { return world_->left(); });
    case Question::kTakeAfter: {
      // The supervisor has already accepted it: it read the same bytes, which a worker could omit.
      static_cast<void>(in.get<host::World::Amounts>());
      return done([] { return true; });
    }
    case Question::kPosition: return done([&] { return world_->position(); });
    case Question::kHasStore: return done([&] { return world_->has_store_in_memory(); });
    case Question::kGoTo: {
      const auto position = in.get<host::World::Position>();
      return done([&] { return world_->go_to(position), true; });
    }
    case Question::kFunctions: {
      const auto calls = in.get<std::vector<sandbox::FunctionCall>>();
      if (!acts_ || options_.guest_functions == nullptr || !sandbox::are_sound(calls)) return no_question();
      return done([&] { return call_functions(calls); });
    }
    case Question::kSleep: {
      const auto ns = in.get<uint64_t>();
      if (!acts_ || !asks_for_sleep()) return no_question();
      return done(
          [&] { return !must_stop() && options_.sources->sleep_ns(ns, [this] { return must_stop(); }); });
    }
    case Question::kInput: {
      const auto patience_ms = std::min(in.get<uint64_t>(), kLongestPatienceMs);
      if (!acts_) return no_question();
      return done([&] {
        if (!options_.read_input) return sandbox::InputPiece{.bytes = {}, .is_end = true};
        return sandbox::read_input(options_.read_input, *world_, std::chrono::milliseconds(patience_ms));
      });
    }
  }
  return no_question();
}

}  // namespace membrane::worker
