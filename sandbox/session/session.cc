#include "sandbox/session/session.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "base/base64.h"
#include "base/hex.h"
#include "base/text.h"
#include "base/utf8.h"
#include "engine/code/fuel.h"
#include "engine/memory/used_pages.h"
#include "host/capabilities/read_json.h"
#include "sandbox/run/output_limit.h"
#include "sandbox/run/replayed_grants.h"
#include "sandbox/session/session_impl.h"
#include "sandbox/session/turn_inputs.h"

namespace membrane::sandbox {
namespace {

using Json = nlohmann::json;

constexpr uint32_t kFreshBytes = 32;
constexpr size_t kInputBlockBytes = 65536;

// Null: UTC, as in the template.
Json words_of_zone(const host::TimeZone* zone) {
  if (zone == nullptr) return nullptr;
  return {{"name", zone->name}, {"tzif_base64", base64_encode(zone->tzif)}};
}

bool are_alike(const std::shared_ptr<const host::TimeZone>& one,
               const std::shared_ptr<const host::TimeZone>& other) {
  if (one == nullptr || other == nullptr) return one == other;
  return one->name == other->name && one->tzif == other->tzif;
}

// The language must have local time, and accept the zone's rules.
Status check_time_zone(const Template& of, const RunOptions& options) {
  if (options.time_zone == nullptr || of.interpreter().asks()) return {};
  return fail(ErrorCode::kUnsupported, "programs in " + of.package().name + " have no time zone but UTC",
              "Remove the time zone, or use Python or JavaScript.");
}

std::unexpected<Error> nothing_to_abandon() {
  return fail(ErrorCode::kInvalidArgument, "no turn of the session waits or is paused",
              "There is nothing to abandon: a turn that runs is stopped by cancel().");
}

}  // namespace

// -- a turn -------------------------------------------------------------------------------------------------------

std::optional<Outcome> Session::Impl::must_stop() const {
  if (repeats_ != nullptr) return std::nullopt;
  const auto asked = context_.must_stop();
  return input_problem_.empty() ? asked : Outcome::kInvalid;
}

void Session::Impl::begin_turn(const Turn& turn) {
  const policy::Limits& limits = options_.policy.limits;
  if (!options_.budget) context_.budget().set(policy::Resource::kFuel, limits.fuel);
  world().refill(limits);
  if (gives_input(turn, options_)) world().note_input();
  turn_ = turn;
  context_.cancel_by(turn.cancel != nullptr ? turn.cancel : options_.cancel);
  on_stdout_ = turn.on_stdout;
  on_stderr_ = turn.on_stderr;
  input_problem_.clear();
  waits_for_input_ = false;
  turn_input_ = turn.read_input;
  if (turn_input_)
    before_input_ = {std::exchange(input_ahead_, {}), std::exchange(input_bytes_, 0),
                     std::exchange(input_is_over_, false)};
  if (has_input() && input_giver()) body_->system().open_stdin();
  forget_result();
  ++turns_;
  output_of_turn_bytes_ = 0;
  begin_part();
}

// A turn's result is held until the next turn, which reuses its memory.
void Session::Impl::forget_result() {
  calls_.reset();
  result_.reset();
  result_bytes_ = 0;
  (void)body_->guest().host_memory().keep(host::HostMemory::Holder::kResult, 0);
}

void Session::Impl::end_input_of_turn() {
  if (!std::exchange(turn_input_, nullptr)) return;
  body_->system().drop_stdin();
  input_ahead_ = std::move(before_input_.ahead);
  input_bytes_ = before_input_.bytes;
  input_is_over_ = before_input_.is_over;
}

void Session::Impl::begin_part() {
  context_.begin(output_left());
  if (on_stdout_) context_.output().on_stdout = on_stdout_;
  if (on_stderr_) context_.output().on_stderr = on_stderr_;
}

// Without files that a library unpacks for itself.
std::vector<ReportFile> Session::Impl::files() const {
  std::vector<ReportFile> files;
  for (const wasi::FileEntry& file : body_->system().written_files())
    if (file.type == wasi::FileType::kRegularFile && !file.path.starts_with("/usr/"))
      files.push_back({file.path, file.size});
  return files;
}

// A request is JSON, in which bytes that are not UTF-8 would become U+FFFD.
Status Session::Impl::check_encoding(const Turn& turn) const {
  const size_t at = utf8_valid_prefix(turn.code);
  if (at == turn.code.size() || !template_->interpreter().takes_requests()) return {};
  const bool has_file = !turn.name.empty() && turn.name[0] != '<';
  const auto line = 1 + std::ranges::count(std::string_view(turn.code).substr(0, at), '\n');
  char byte[8];
  std::snprintf(byte, sizeof byte, "0x%02X", static_cast<unsigned char>(turn.code[at]));
  return fail(ErrorCode::kInvalidInput,
              (has_file ? turn.name : "the program") + " is not UTF-8: line " + std::to_string(line) +
                  " has the byte " + byte,
              !has_file ? "Give it as UTF-8."
                        : "Save it as UTF-8. If it is in Latin-1: iconv -f latin1 -t utf-8 " + turn.name +
                              " > utf-8.py");
}

// A program that reads only code has no access to the rest of a turn.
Status Session::Impl::check(const Turn& turn) const {
  if (runs_)
    return fail(ErrorCode::kInvalidArgument, "a turn of the session is running",
                "Run this afterwards: a function called by a turn cannot run another turn of its session.");
  if (const auto calls = waits_for(); !calls.empty())
    return fail(ErrorCode::kInvalidArgument,
                "the session waits for the answer to its call of " + calls[0].name,
                "Answer the call: resume(). Or abandon() it, which returns the session to its state before "
                "the turn.");
  if (body_->is_paused())
    return fail(ErrorCode::kInvalidArgument, "the session's last turn is paused",
                "Resume it (:go), or work in a fork from before it.");
  if (turn.only_checks && !template_->interpreter().checks())
    return fail(ErrorCode::kUnsupported,
                template_->package().name + " cannot check a text without running it",
                "Run it, or check it with a tool of the language.");
  MEMBRANE_TRY(check_inputs(turn, *template_));
  MEMBRANE_TRY(check_encoding(turn));
  const bool takes_arguments = template_->interpreter().asks() || template_->interpreter().restarts();
  const bool takes_input = template_->interpreter().asks();
  const bool has_no_input = turn.input.empty() && !turn.read_input;
  if ((takes_arguments || turn.arguments.empty()) && (takes_input || has_no_input)) return {};
  return fail(ErrorCode::kUnsupported,
              template_->package().name + " reads its programs from standard input, and has no " +
                  (has_no_input ? "arguments" : "other input") + " for them",
              "Write what it needs into the program, or into a file that the policy grants.");
}

Report Session::Impl::exec(const Turn& turn) {
  if (const Status possible = check(turn); !possible) return refusal(possible.error());
  if (const Status held = hold_origin(); !held) {
    Report report = refusal(held.error());
    report.outcome = Outcome::kFailed;  // whatever the turn is
    return report;
  }
  begin_turn(turn);
  asks_others_ = false;
  answers_.clear();
  answers_bytes_ = 0;
  if (template_->interpreter().restarts())
    if (const Status started = start_program(turn); !started) return refusal(started.error());
  return run_part([&](uint64_t fuel) {
    body_->start_run(language_execution_limits(options_.policy.limits), fuel, turn.pause_at_fuel);
    if (!template_->interpreter().takes_requests()) return template_->interpreter().turn(*body_, turn.code);
    const auto request = next();
    if (!request) return body_->refuse({ErrorCode::kInvalidArgument, request.error().reason, ""});
    return template_->interpreter().turn(*body_, *request);
  });
}

// Over the files that earlier turns left. It starts where it first reads, unless something could differ there: other
// arguments, or granted directories.
Status Session::Impl::start_program(const Turn& turn) {
  std::vector<std::string> arguments = wasi_config(*template_, options_.policy).arguments;
  arguments.insert(arguments.end(), turn.arguments.begin(), turn.arguments.end());
  MEMBRANE_ASSIGN(auto system, body_->system().fork({.fork_number = kOfPrograms + turns_,
                                                     .stdin_text = "",
                                                     .policy = &options_.policy,
                                                     .world = wasi_world(),
                                                     .starts_program = true,
                                                     .arguments = std::move(arguments)}));
  const bool is_warm = turn.arguments.empty() && options_.policy.fs.empty();
  return begin(std::move(system), nullptr, is_warm ? template_->waiting() : nullptr);
}

Report Session::Impl::go_on(std::optional<uint64_t> pause_at_fuel) {
  if (!body_->is_paused() || runs_)
    return refusal({ErrorCode::kInvalidArgument, "no turn is paused",
                    "Run code first: only a turn that was paused, or waits, goes on."});
  world().go_on();
  begin_part();
  return run_part([&](uint64_t fuel) {
    return body_->go_on(fuel, pause_at_fuel) && template_->interpreter().go_on(*body_);
  });
}

Report Session::Impl::resume(std::vector<FunctionAnswer> answers) {
  if (!body_->is_paused() || !calls_)
    return refusal(
        {ErrorCode::kInvalidArgument, "no turn waits for a function", "Run code that calls one first."});
  if (!fill_in(*calls_, std::move(answers)))
    return refusal({ErrorCode::kInvalidArgument, "there are more answers than calls that wait", ""});
  return go_on(std::nullopt);
}

Status Session::Impl::abandon() {
  if (!body_->is_paused() || runs_) return nothing_to_abandon();
  calls_.reset();
  turn_.reset();
  MEMBRANE_TRY(go_back());
  end_input_of_turn();
  return {};
}

std::vector<FunctionCall> Session::Impl::waits_for() const {
  return body_->is_paused() ? waiting_of(calls_) : std::vector<FunctionCall>();
}

Report Session::Impl::run_part(const std::function<bool(uint64_t fuel)>& run) {
  runs_ = true;
  const auto is_over = std::unique_ptr<bool, void (*)(bool*)>(&runs_, [](bool* runs) { *runs = false; });
  const Clock::time_point start = Clock::now();
  const uint64_t tokens_before = world().tokens_used();
  const uint64_t used_before = body_->is_paused() ? body_->fuel_used() : 0;
  const uint64_t fuel = context_.take_fuel(used_before);
  const bool restarts = template_->interpreter().restarts();
  stands_as(nullptr);
  const bool returned = run(fuel) || (restarts && body_->has_ended());
  engine::trim_kept_stack();
  context_.give_back_fuel(fuel - (body_->fuel_used() - used_before));
  Report report;
  report.cost_version = engine::kCostVersion;
  report.fuel_used = body_->fuel_used();
  report.memory_peak_bytes = body_->instance().memory_bytes();
  report.tokens_used = world().tokens_used() - tokens_before;
  const bool is_paused = body_->is_paused();
  if (is_paused) report.outcome = body_->awaits_answer() ? Outcome::kWaiting : Outcome::kFrozen;
  else if (returned && result_) report_result(report);
  else if (!returned || !template_->interpreter().reads()) report_stop(report);
  report_rest(report);
  is_changed_ = !restarts || is_paused;  // a program that has ended leaves only files
  for (FunctionCall& call : waits_for())
    report.waits_for.push_back({call.name, call.arguments, call.keywords, call.object});
  if (is_paused) {
    asks_others_ = true;
  } else if (!returned || report.outcome == Outcome::kOutOfMemory) {
    if (const Status back = go_back(); !back) report_lost_steps(back.error(), report);
  } else if (can_be_repeated()) {
    add_step(report.fuel_used);
  } else {
    origin_.reset();
  }
  end_input_of_turn();
  report.run_us = microseconds_since(start);
  return report;
}

host::HostResult<std::string> Session::Impl::next() {
  if (repeats_ != nullptr) return repeats_->request;
  if (!turn_) {
    asks_others_ = true;  // repeated, it would get its own request
    return host::refuse(host::Errno::kNotFound, "there is no turn to run");
  }
  Json request = {{"code", without_byte_order_mark(turn_->code)},
                  {"name", turn_->name.empty() ? "<cell " + std::to_string(turns_) + ">" : turn_->name}};
  if (completes_) request["mode"] = "complete";
  else if (turn_->only_checks) request["mode"] = "check";
  else if (turn_->is_script) request["mode"] = "script";
  if (!turn_->arguments.empty()) request["arguments"] = turn_->arguments;
  if (!turn_->input.empty()) request["input"] = turn_->input;
  if (has_input() && turn_->input.empty()) request["input_waits"] = true;
  if (turn_input_) request["input_is_new"] = true;
  if (turn_->declares_calls) request["declares_calls"] = true;
  if (!covers_description(functions_, given_functions())) {
    MEMBRANE_ASSIGN(Json description,
                    host::read_json_for_guest(options_.guest_functions->description, "the functions"));
    if (describes_values(functions_)) description.erase("values");
    request["functions"] = std::move(description);
    functions_ = add_description(functions_, given_functions());
  }
  if (!are_alike(time_zone_, options_.time_zone)) request["zone"] = words_of_zone(options_.time_zone.get());
  time_zone_ = options_.time_zone;
  const std::string inputs = turn_->inputs.empty() || turn_->only_checks ? "" : json_of_inputs(turn_->inputs);
  turn_.reset();
  if (needs_entropy_) {
    MEMBRANE_ASSIGN(const std::string entropy, fresh_entropy());
    request["fresh"] = {{"entropy_hex", hex_of(entropy)}};
    if (!template_->imports().empty()) request["packages"] = template_->imports();
    needs_entropy_ = false;
  }
  request_ = json_text(request);
  // As they were given: a JSON object of the library's would put their members in another order.
  if (!inputs.empty()) request_.replace(request_.size() - 1, 1, ",\"inputs\":" + inputs + '}');
  return request_;
}

// In blocks whose size does not depend on how the source delivers, so that the program sees the same in every run. A
// turn's own input may come from someone who waits for the program's output, and is not collected into blocks.
host::HostResult<std::string> Session::Impl::read_input() {
  asks_others_ = true;
  std::string block = std::exchange(input_ahead_, {});
  waits_for_input_ = true;
  while (block.size() < kInputBlockBytes && has_input()) {
    if (must_stop()) return host::refuse(host::Errno::kHost, "the run is to end");
    if (turn_input_ && !block.empty()) break;
    InputPiece piece =
        sandbox::read_input(turn_input_ ? turn_input_ : options_.read_input, world(), kInputPatience);
    block += piece.bytes;
    input_is_over_ = piece.is_end;
  }
  waits_for_input_ = false;
  if (block.size() > kInputBlockBytes) {
    input_ahead_ = block.substr(kInputBlockBytes);
    block.resize(kInputBlockBytes);
  }
  input_bytes_ += block.size();
  const uint64_t limit = options_.policy.limits.bytes_in;
  if (input_bytes_ <= limit) return block;
  input_problem_ = "the input has more than " + count_of(limit, "byte");
  return host::refuse(host::Errno::kTooBig, input_problem_);
}

std::function<bool()> Session::Impl::input_giver() {
  const bool reads_turns = template_->interpreter().reads() || template_->interpreter().restarts();
  if (reads_turns) return nullptr;
  return [this] {
    const auto bytes = read_input();
    if (!bytes) return false;
    if (bytes->empty()) body_->system().close_stdin();
    else body_->system().give_stdin(*bytes);
    return true;
  };
}

// Real entropy goes through the journal, so that a replay gets the same. A turn without host calls left gets it all
// the same: it did not request it.
host::HostResult<std::string> Session::Impl::fresh_entropy() {
  if (options_.policy.random.real) {
    auto journaled = world().broker().random_bytes(kFreshBytes);
    if (journaled || journaled.error().code != host::Errno::kBudget) return journaled;
    return host::RandomSource(options_.policy.random, options_.sources.get()).bytes(kFreshBytes);
  }
  std::string bytes(kFreshBytes, '\0');
  fresh_.fill({reinterpret_cast<uint8_t*>(bytes.data()), bytes.size()});
  return bytes;
}

// -- functions of the embedder ------------------------------------------------------------------------------------

const std::string& Session::Impl::given_functions() {
  if (!given_functions_)
    given_functions_ = options_.guest_functions ? digest_of(options_.guest_functions->description) : "";
  return *given_functions_;
}

host::HostResult<Session::Impl::JsonAnswer> Session::Impl::call_functions(std::string_view request,
                                                                          bool may_wait) {
  if (repeats_ != nullptr) return answer_again();
  auto answer = answer_functions(request, may_wait);
  if (answer && answer->end == host::CallEnd::kReturn) note_answer(answer->json);
  else asks_others_ = true;
  return answer;
}

host::HostResult<Session::Impl::JsonAnswer> Session::Impl::answer_functions(std::string_view request,
                                                                            bool may_wait) {
  if (options_.guest_functions == nullptr)
    return host::refuse(host::Errno::kUnsupported, "there are no functions of the embedder");
  host::HostMemory& memory = body_->guest().host_memory();
  MEMBRANE_ASSIGN(auto calls, read_function_calls(request, memory.left_for_call()));
  const Clock::time_point start = Clock::now();
  if (!calls_ || calls_->calls != calls) {
    std::vector<FunctionAnswer> answers = answer_paid_calls(
        *options_.guest_functions, world(), calls, [this] { return context_.stop_requested().has_value(); });
    calls_ = KeptCalls{std::move(calls), std::move(answers)};
  }
  if (may_wait && is_waiting(*calls_)) return JsonAnswer{{}, host::CallEnd::kWaits};
  for (FunctionAnswer& answer : calls_->answers)
    if (answer.kind == FunctionAnswer::Kind::kLater)
      answer = FunctionAnswer::error(
          "", "the program cannot wait for an answer here: call it outside of a module's own code");
  const KeptCalls answered = *std::exchange(calls_, std::nullopt);
  record_calls(answered, microseconds_since(start));
  std::string text = write_function_answers(answered.answers);
  if (text.size() > memory.left_to_keep() || text.size() > memory.left_for_call())
    return host::refuse(host::Errno::kNoMemory,
                        "the answers of " + count_of(text.size(), "byte") + " do not fit");
  return JsonAnswer{std::move(text)};
}

void Session::Impl::note_answer(const std::string& text) {
  if (asks_others_) return;
  if (steps_bytes_ + answers_bytes_ + text.size() > kStepsBytes) {
    asks_others_ = true;  // too much to store: the turn cannot be repeated as a step
    answers_.clear();
    return;
  }
  answers_bytes_ += text.size();
  answers_.push_back(text);
}

host::HostResult<Session::Impl::JsonAnswer> Session::Impl::answer_again() {
  if (repeated_answers_ == repeats_->answers.size())
    return host::refuse(host::Errno::kNotFound, "the turn did not call this before");
  return JsonAnswer{repeats_->answers[repeated_answers_++]};
}

void Session::Impl::record_calls(const KeptCalls& calls, double latency_us) {
  for (size_t i = 0; i < calls.calls.size(); ++i)
    body_->dispatcher().list(line_of(calls.calls[i], calls.answers[i], static_cast<uint64_t>(latency_us)));
}

host::HostResult<void> Session::Impl::take_result(std::string_view request, host::HostMemory& memory) {
  using enum host::HostMemory::Holder;
  MEMBRANE_ASSIGN(Json result, host::read_json_for_guest(request, "the result",
                                                         {.bytes = host::Door::kMaxRequestBytes,
                                                          .memory_bytes = memory.left_for_call()}));
  if (!result.is_object()) return host::refuse(host::Errno::kInvalid, "the result is not a JSON object");
  const uint64_t bytes = size_of_result(measure_json(request));
  // Even if files have taken all the room, the way that the turn ended can be reported.
  constexpr uint64_t kAlwaysTaken = 16u << 10;
  const bool has_room = memory.keep(kResult, bytes) ||
                        (bytes <= kAlwaysTaken && (memory.keep_what_is_there(kResult, bytes), true));
  if (!has_room)
    return host::refuse(host::Errno::kTooBig,
                        "there is no room for a result of " + count_of(request.size(), "byte"));
  result_ = std::move(result);
  result_bytes_ = bytes;
  return {};
}

// -- the interface -------------------------------------------------------------------------------------------------

Status Session::abandon() { return nothing_to_abandon(); }

class Session::Local final : public Session {
 public:
  explicit Local(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

  Report exec(const Turn& turn) override { return impl_->exec(turn); }
  Report go_on(std::optional<uint64_t> pause_at_fuel) override { return impl_->go_on(pause_at_fuel); }
  void end(Report& report) override {
    end_replay(impl_->world(), report);
    if (const auto& divergence = impl_->world().divergence()) report_divergence(*divergence, "turns", report);
  }
  Report resume(std::vector<FunctionAnswer> answers) override { return impl_->resume(std::move(answers)); }
  Status abandon() override { return impl_->abandon(); }
  void cancel_by(const std::atomic<bool>* cancel) override { impl_->cancel_by(cancel); }
  std::vector<FunctionCall> waits_for() const override { return impl_->waits_for(); }
  std::optional<uint64_t> paused_at_fuel() const override {
    return impl_->body_->is_paused() ? std::optional(impl_->body_->fuel_used()) : std::nullopt;
  }
  Result<std::unique_ptr<Session>> fork(uint64_t number) override {
    MEMBRANE_ASSIGN(auto child, impl_->fork(number));
    return std::make_unique<Local>(std::move(child));
  }
  [[nodiscard]] Result<std::vector<uint8_t>> keep() const override { return impl_->keep(); }
  [[nodiscard]] Result<std::vector<uint8_t>> keep_fork(uint64_t number) const override {
    return impl_->keep_fork(number);
  }
  std::vector<std::string> complete(std::string_view code) override { return impl_->complete(code); }

  std::vector<ReportFile> files() const override { return impl_->files(); }
  host::HostResult<std::string> read_file(std::string_view path) const override {
    return impl_->body_->system().read_file(path);
  }
  host::HostResult<void> put_file(std::string_view path, std::string_view bytes) override {
    impl_->forget_origin();
    auto put = impl_->body_->system().put_file(path, bytes);
    (void)impl_->body_->system().account_to(impl_->body_->guest());  // counts as far as it fits
    return put;
  }

  host::HostResult<std::vector<wasi::FileFact>> act_on_files(const wasi::FileRequest& request) override {
    impl_->forget_origin();
    auto facts = wasi::act_on_files(impl_->body_->system(), request);
    (void)impl_->body_->system().account_to(impl_->body_->guest());
    return facts;
  }

  uint64_t skipped_ns() const override { return impl_->body_->system().skipped_ns(); }
  std::optional<uint64_t> private_bytes() const override {
    const auto changed = engine::changed_pages(*impl_->body_->instance().memory());
    if (!changed) return std::nullopt;
    uint64_t bytes = 0;
    for (const engine::MemoryRange& range : *changed) bytes += range.second;
    return bytes;
  }

 private:
  std::unique_ptr<Impl> impl_;
};

Result<std::unique_ptr<Session>> Session::create(std::shared_ptr<const Template> of, RunOptions options) {
  MEMBRANE_TRY(policy::check_for_wasm(options.policy));
  auto impl = std::make_unique<Impl>(std::move(of), std::move(options));
  const Template& from = *impl->template_;
  MEMBRANE_TRY(check_replayed_grants(impl->world(), impl->options_.policy));
  MEMBRANE_TRY(check_time_zone(from, impl->options_));
  MEMBRANE_ASSIGN(auto system, from.new_system(impl->options_.policy, impl->wasi_world(), impl->key_given()));
  MEMBRANE_TRY(impl->begin(std::move(system), nullptr, from.waiting()));
  return std::make_unique<Local>(std::move(impl));
}

Result<std::unique_ptr<Session>> Session::restore(std::shared_ptr<const Template> of,
                                                  std::span<const uint8_t> bytes, RunOptions options) {
  MEMBRANE_ASSIGN(const SessionState state, read_session(bytes));
  auto impl = std::make_unique<Impl>(std::move(of), std::move(options));
  MEMBRANE_TRY(check_replayed_grants(impl->world(), impl->options_.policy));
  MEMBRANE_TRY(check_time_zone(*impl->template_, impl->options_));
  MEMBRANE_TRY(impl->restore(state));
  return std::make_unique<Local>(std::move(impl));
}

}  // namespace membrane::sandbox
