#include "sandbox/receipt_replay.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/sha256.h"
#include "base/utf8.h"
#include "engine/code/fuel.h"
#include "sandbox/receipt_content.h"

namespace membrane::sandbox {
namespace {

constexpr uint64_t kMostWallMs = 3'600'000;  // a machine may be slower than the one that sealed

// What to repeat: read from the private part of a receipt.
struct Recorded {
  std::string source;
  std::string language;
  std::string template_json;
  policy::Policy policy;
  Invocation invocation;
  std::vector<OwnerAct> acts;  // before it
  std::vector<std::string> input;
  std::vector<SealedCall> calls;
};

std::unexpected<Error> not_there(std::string_view what) {
  return fail(ErrorCode::kInvalidArgument,
              "the private part of the receipt has no " + std::string(what) + ": the run cannot be repeated",
              "It was removed, or never existed. The rest still verifies.");
}

Result<std::string_view> content_of(const SealedRun& run, std::string_view name) {
  const auto content = run.content.content(run.receipt, name);
  if (!content) return not_there(name);
  return *content;
}

template <typename T>
Result<T> whole(std::optional<T> read, std::string_view name) {
  if (read) return *std::move(read);
  return fail(ErrorCode::kInvalidInput, "the receipt's " + std::string(name) + " is malformed");
}

Result<std::vector<SealedCall>> calls_of(const SealedRun& run) {
  std::vector<SealedCall> calls;
  for (size_t i = 0; i < run.receipt.items.size(); ++i) {
    if (run.receipt.items[i].name != "call") continue;
    const auto content = run.content.content(i);
    if (!content) return not_there("call " + std::to_string(calls.size() + 1));
    MEMBRANE_ASSIGN(SealedCall call, whole(read_sealed_call(*content), "call"));
    calls.push_back(std::move(call));
  }
  return calls;
}

Result<Recorded> recorded_of(const SealedRun& run) {
  Recorded recorded;
  MEMBRANE_ASSIGN(const std::string_view program, content_of(run, "program"));
  MEMBRANE_ASSIGN(recorded.source, whole(read_bytes(program), "program"));
  MEMBRANE_ASSIGN(recorded.template_json, content_of(run, "template"));
  recorded.language = run.receipt.find("template")->fact("language");
  MEMBRANE_ASSIGN(const std::string_view policy, content_of(run, "policy"));
  MEMBRANE_ASSIGN(recorded.policy, policy::parse_policy(policy, "the receipt's policy.json"));
  MEMBRANE_ASSIGN(const std::string_view invocation, content_of(run, "invocation"));
  MEMBRANE_ASSIGN(recorded.invocation, whole(Invocation::read(invocation), "invocation"));
  if (run.receipt.find("between") != nullptr) {
    MEMBRANE_ASSIGN(const std::string_view acts, content_of(run, "between"));
    MEMBRANE_ASSIGN(recorded.acts, whole(read_acts(acts), "between"));
  }
  MEMBRANE_ASSIGN(const std::string_view input, content_of(run, "input"));
  MEMBRANE_ASSIGN(recorded.input, whole(read_pieces(input), "input"));
  MEMBRANE_ASSIGN(recorded.calls, calls_of(run));
  return recorded;
}

// One journal of all turns. The last call of a turn's receipt is left out if the next turn has another call with its
// number: the call was not made, since the turn's fuel ran out before it.
Result<host::Journal> journal_of(std::span<const Recorded> runs) {
  std::vector<const SealedCall*> calls;
  for (const Recorded& run : runs)
    for (const SealedCall& call : run.calls) {
      while (!calls.empty() && calls.back()->entry.sequence >= call.entry.sequence) calls.pop_back();
      calls.push_back(&call);
    }
  std::string text = std::string(host::kJournalHeader) + "\n";
  for (const SealedCall* const call : calls) text += call->line + "\n";
  return host::Journal::parse(text);
}

std::string counted(std::string_view text) {
  constexpr size_t kMost = 40;
  const size_t end = utf8_cut(text, kMost);
  return utf8_repair(text.substr(0, end)) + (end < text.size() ? "…" : "");
}

// Where two contents differ, with some of each.
std::string difference(std::string_view name, std::string_view was, std::string_view is) {
  const auto [a, b] = std::ranges::mismatch(was, is);
  const auto at = static_cast<size_t>(a - was.begin());
  return std::string(name) + " differs from byte " + std::to_string(at) + " of its JSON on: it was " +
         counted(was.substr(at)) + ", and is " + counted(is.substr(at));
}

// A run that was stopped from outside, or when fuel shared with others ran out, is stopped at the same point.
uint64_t fuel_for(const Receipt& receipt, const policy::Limits& limits) {
  for (const Outcome outcome : {Outcome::kOutOfFuel, Outcome::kTimedOut, Outcome::kCancelled})
    if (receipt.end.outcome == name_of(outcome)) return std::min(limits.fuel, receipt.end.fuel);
  return limits.fuel;
}

// A journal from one of its entries on: for a session that continues in another world.
class JournalFrom final : public host::JournalSource {
 public:
  JournalFrom(const host::JournalSource& of, uint64_t first) : of_(of), first_(std::min(first, of.size())) {}
  [[nodiscard]] uint64_t size() const override { return of_.size() - first_; }
  [[nodiscard]] const host::JournalEntry* entry(uint64_t place) const override {
    return of_.entry(first_ + place);
  }

 private:
  const host::JournalSource& of_;
  const uint64_t first_;
};

// A run in progress: gets the same input in the same pieces, and collects the files that it makes.
class Again {
 public:
  Again(const Recorded& first, const ReplayOptions& options, const host::Journal& journal)
      : journal_(journal) {
    set_policy(first.policy);
    run_options_.budget = std::make_shared<policy::Budget>(run_options_.policy.limits);
    run_options_.tier = options.tier;
    run_options_.cancel = options.cancel;
    run_options_.replay = &journal;
    run_options_.input_is_ambient = first.invocation.input_is_ambient;
    if (first.invocation.has_input && !first.invocation.input_is_live)
      run_options_.read_input = [this](std::chrono::milliseconds) { return next_piece(); };
    run_options_.on_file = [this](std::string_view path, std::string_view bytes) {
      files_.push_back({std::string(path), bytes.size(), sha256_hex(bytes).value_or("")});
    };
  }
  // The options refer to it.
  Again(const Again&) = delete;
  Again& operator=(const Again&) = delete;

  [[nodiscard]] RunOptions& options() { return run_options_; }

  // For options used from now on, of a session that has made this many calls. No session with the earlier options
  // may exist any more.
  void go_on_under(const policy::Policy& policy, uint64_t calls) {
    set_policy(policy);
    rest_of_journal_.emplace(journal_, calls);
    run_options_.replay = &*rest_of_journal_;
  }
  // For acts of the owner, which are not compared.
  void begin_act() {
    refill(run_options_.policy.limits.fuel);
    input_ = nullptr;
  }

  void begin(const SealedRun& run, const Recorded& turn) {
    refill(fuel_for(run.receipt, run_options_.policy.limits));
    input_ = &turn.input;
    next_ = 0;
    files_.clear();
  }

  // For a turn whose input was given to it as it arrived: the same pieces.
  [[nodiscard]] std::function<InputPiece(std::chrono::milliseconds)> live_input(const Invocation& how) {
    if (!how.input_is_live) return nullptr;
    return [this](std::chrono::milliseconds) { return next_piece(); };
  }

  [[nodiscard]] const std::vector<MadeFile>& files() const { return files_; }

 private:
  void set_policy(const policy::Policy& policy) {
    run_options_.policy = policy;
    run_options_.policy.limits.wall_ms = std::max(policy.limits.wall_ms, kMostWallMs);
  }
  // A policy's limits apply to each turn.
  void refill(uint64_t fuel) {
    using enum policy::Resource;
    const policy::Limits& limits = run_options_.policy.limits;
    policy::Budget& budget = *run_options_.budget;
    budget.set(kFuel, fuel);
    budget.set(kHostCalls, limits.host_calls);
    budget.set(kBytesIn, limits.bytes_in);
    budget.set(kBytesOut, limits.bytes_out);
    budget.set(kTokens, limits.tokens);
    budget.set_deadline(std::chrono::steady_clock::now() + std::chrono::milliseconds(limits.wall_ms));
  }
  InputPiece next_piece() {
    if (input_ == nullptr || next_ == input_->size()) return {.bytes = {}, .is_end = true};
    return {.bytes = (*input_)[next_++], .is_end = false};
  }

  const host::Journal& journal_;
  std::optional<JournalFrom> rest_of_journal_;
  RunOptions run_options_;
  const std::vector<std::string>* input_ = nullptr;
  size_t next_ = 0;
  std::vector<MadeFile> files_;
};

bool was_stopped_from_outside(const Receipt& receipt) {
  return receipt.end.outcome == name_of(Outcome::kTimedOut) ||
         receipt.end.outcome == name_of(Outcome::kCancelled);
}

void compare(const SealedRun& run, const Report& report, const std::vector<MadeFile>& files,
             std::vector<std::string>& differences) {
  const Receipt& receipt = run.receipt;
  const std::string of = receipt.head.turn == 0 ? "" : "turn " + std::to_string(receipt.head.turn) + ": ";
  const auto differs = [&](const std::string& what) { differences.push_back(of + what); };
  if (report.outcome == Outcome::kDiverged) return differs(report.errors.front().message);
  // The exact time of a stop from outside is not reproducible; everything before it is.
  if (was_stopped_from_outside(receipt)) return;
  if (receipt.end.outcome != name_of(report.outcome))
    differs("the outcome was " + receipt.end.outcome + ", and is " + std::string(name_of(report.outcome)) +
            (report.errors.empty() ? "" : " (" + report.errors.front().message + ")"));
  if (receipt.end.fuel != report.fuel_used)
    differs("the fuel was " + std::to_string(receipt.end.fuel) + ", and is " +
            std::to_string(report.fuel_used));
  const std::optional<int64_t> exit_code =
      report.exit_code ? std::optional<int64_t>(*report.exit_code) : std::nullopt;
  if (receipt.end.exit_code != exit_code) differs("the exit code is another");
  for (const auto& [name, content] : output_of(report, files)) {
    const auto was = run.content.content(receipt, name);
    if (was && *was != content) differs(difference(name, *was, content));
  }
}

Status check_order(std::span<const SealedRun> runs) {
  for (size_t i = 0; i < runs.size(); ++i) {
    const ReceiptHead& head = runs[i].receipt.head;
    const bool is_run = head.kind == ReceiptKind::kRun && runs.size() == 1;
    const bool is_turn = head.kind == ReceiptKind::kTurn && head.turn == i + 1 &&
                         head.previous == (i == 0 ? "" : runs[i - 1].receipt.digest);
    if (!is_run && !is_turn)
      return fail(ErrorCode::kInvalidArgument,
                  "the receipts are not the turns of one session from its first on");
  }
  return {};
}

Result<Replayed> replay_run(const SealedRun& run, const Recorded& recorded, const ReplayOptions& options,
                            const host::Journal& journal) {
  Again again(recorded, options, journal);
  again.begin(run, recorded);
  Program program;
  program.source = recorded.source;
  program.name = recorded.invocation.name;
  program.entry = recorded.invocation.entry;
  program.arguments = recorded.invocation.arguments;
  program.input = recorded.invocation.given_input;
  program.environment = recorded.invocation.environment;
  Replayed replayed;
  replayed.was_stopped = was_stopped_from_outside(run.receipt);
  replayed.report =
      options.run ? options.run(program, again.options()) : sandbox::run(program, again.options());
  compare(run, replayed.report, again.files(), replayed.differences);
  return replayed;
}

// A session that is repeated, in any place.
struct SessionAgain {
  std::shared_ptr<const Template> language;
  const ReplayOptions& options;
  Again& again;
  std::unique_ptr<Session> session;

  Status begin() {
    MEMBRANE_ASSIGN(session, options.create ? options.create(language, again.options())
                                            : Session::create(language, again.options()));
    return {};
  }
  // Errors: kInvalidInput for an invalid act.
  Status act(const OwnerAct& act);

 private:
  Status change_policy(const std::string& json, uint64_t calls) {
    MEMBRANE_ASSIGN(const policy::Policy policy, policy::parse_policy(json, "the receipt's policy.json"));
    MEMBRANE_ASSIGN(const std::vector<uint8_t> kept, session->keep());
    session.reset();
    again.go_on_under(policy, calls);
    MEMBRANE_ASSIGN(session, options.restore ? options.restore(language, kept, again.options())
                                             : Session::restore(language, kept, again.options()));
    return {};
  }
};

Status SessionAgain::act(const OwnerAct& act) {
  again.begin_act();
  const std::string what = act.empty() ? "" : act[0];
  // An act that failed then fails again.
  const auto file_act = [&](wasi::FileAct how, bool is_deep) -> Status {
    static_cast<void>(session->act_on_files({how, act[1], act.size() > 2 ? act[2] : "", is_deep}));
    return {};
  };
  if (what == "run" && act.size() == 3) return session->exec({.code = act[2], .name = act[1]}), Status();
  if (what == "put" && act.size() == 3) return static_cast<void>(session->put_file(act[1], act[2])), Status();
  if (what == "make_directory" && act.size() == 2) return file_act(wasi::FileAct::kMakeDirectory, false);
  if (what == "remove" && act.size() == 2) return file_act(wasi::FileAct::kRemove, false);
  if (what == "remove_all" && act.size() == 2) return file_act(wasi::FileAct::kRemove, true);
  if (what == "move" && act.size() == 3) return file_act(wasi::FileAct::kMove, false);
  uint64_t time_ns = 0;
  if (what == "time" && act.size() == 2 &&
      std::from_chars(act[1].data(), act[1].data() + act[1].size(), time_ns).ec == std::errc())
    return static_cast<void>(
               session->act_on_files({.act = wasi::FileAct::kTellTime, .path = {}, .time_ns = time_ns})),
           Status();
  uint64_t calls = 0;
  if (what == "policy" && act.size() == 3 &&
      std::from_chars(act[2].data(), act[2].data() + act[2].size(), calls).ec == std::errc())
    return change_policy(act[1], calls);
  return fail(ErrorCode::kInvalidInput, "the receipt has an unknown act of the owner: " + counted(what));
}

Result<Replayed> replay_session(std::span<const SealedRun> runs, std::span<const Recorded> recorded,
                                const ReplayOptions& options, const host::Journal& journal) {
  const bool is_run = runs.front().receipt.head.kind == ReceiptKind::kRun;
  MEMBRANE_ASSIGN(auto language,
                  options.open({recorded.front().language, is_run ? recorded.front().source : "",
                                recorded.front().policy}));
  MEMBRANE_ASSIGN(const std::string description, describe_template(language.get()));
  Replayed replayed;
  replayed.was_stopped = was_stopped_from_outside(runs.back().receipt);
  if (description != recorded.front().template_json) {
    replayed.differences.push_back("the language differs here: " +
                                   difference("template", recorded.front().template_json, description));
    return replayed;
  }
  Again again(recorded.front(), options, journal);
  SessionAgain of{std::move(language), options, again, nullptr};
  MEMBRANE_TRY(of.begin());
  for (size_t i = 0; i < runs.size(); ++i) {
    const Invocation& how = recorded[i].invocation;
    for (const OwnerAct& act : recorded[i].acts) MEMBRANE_TRY(of.act(act));
    again.begin(runs[i], recorded[i]);
    replayed.report = of.session->exec({.code = recorded[i].source,
                                        .name = how.name,
                                        .is_script = how.is_script,
                                        .arguments = how.arguments,
                                        .input = how.given_input,
                                        .read_input = again.live_input(how)});
    if (i + 1 == runs.size()) of.session->end(replayed.report);
    compare(runs[i], replayed.report, again.files(), replayed.differences);
    if (!replayed.differences.empty()) break;
  }
  return replayed;
}

std::string about(const SealedCall& call) {
  std::string text;
  for (const std::string& argument : call.decided_by)
    text += (text.empty() ? "" : " ") + utf8_repair(argument.substr(0, utf8_cut(argument, 200)));
  return text;
}

}  // namespace

Result<Replayed> replay(std::span<const SealedRun> runs, const ReplayOptions& options) {
  if (runs.empty()) return fail(ErrorCode::kInvalidArgument, "there is nothing to replay");
  MEMBRANE_TRY(check_order(runs));
  std::vector<Recorded> recorded;
  for (const SealedRun& run : runs) {
    MEMBRANE_ASSIGN(Recorded each, recorded_of(run));
    recorded.push_back(std::move(each));
    if (run.receipt.end.cost_version != engine::kCostVersion)
      return fail(ErrorCode::kUnsupported,
                  "the receipt counts fuel by version " + std::to_string(run.receipt.end.cost_version) +
                      " of the cost table, and this program by " + std::to_string(engine::kCostVersion),
                  "Replay it with Membrane " + run.receipt.head.membrane + ".");
  }
  MEMBRANE_ASSIGN(const host::Journal journal, journal_of(recorded));
  if (recorded.front().language == "wasm")
    return replay_run(runs.front(), recorded.front(), options, journal);
  return replay_session(runs, recorded, options, journal);
}

Result<std::vector<RefusedCall>> refused_calls(const SealedRun& run, host::CallJudge& judge,
                                               const policy::Policy& policy) {
  MEMBRANE_ASSIGN(const std::vector<SealedCall> calls, calls_of(run));
  std::vector<RefusedCall> refused;
  judge.begin_run(run.receipt.head.session);
  for (size_t i = 0; i < calls.size(); ++i) {
    const SealedCall& call = calls[i];
    MEMBRANE_ASSIGN(const auto why, judge.judge({.function = call.entry.function,
                                                 .decided_by = call.decided_by,
                                                 .final_url = call.final_url,
                                                 .heard = call.entry.heard,
                                                 .code = call.entry.code,
                                                 .reason = call.entry.reason}));
    if (why)
      refused.push_back({i + 1, call.entry.function, about(call), std::string(call.entry.decision()), *why});
  }
  const uint64_t fuel = run.receipt.end.fuel;
  if (fuel > policy.limits.fuel)
    refused.push_back({0,
                       "",
                       "",
                       "allowed",
                       {host::Errno::kBudget,
                        "the run used " + std::to_string(fuel) + " fuel, and the limit is " +
                            std::to_string(policy.limits.fuel),
                        "fuel in [limits]"}});
  return refused;
}

}  // namespace membrane::sandbox
