#include "sandbox/session.h"

#include <chrono>
#include <deque>
#include <ranges>

#include "base/base64.h"
#include "base/hex.h"
#include "base/json.h"
#include "base/terminal.h"
#include "engine/fuel.h"
#include "engine/image_changes.h"
#include "engine/used_pages.h"
#include "host/random_fork.h"
#include "host/read_json.h"
#include "host/world.h"
#include "sandbox/body.h"
#include "sandbox/file_requests.h"
#include "sandbox/language_limits.h"
#include "sandbox/missing_package.h"
#include "sandbox/output_limit.h"
#include "sandbox/replayed_grants.h"
#include "sandbox/session_state.h"
#include "sandbox/telling.h"
#include "sandbox/wasi_calls.h"
#include "wasm/explain.h"

namespace membrane::sandbox {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

constexpr uint32_t kFreshBytes = 32;
constexpr size_t kInputBlockBytes = 65536;
// Numbers that tell apart what is forked from one stream of randomness: forks of the session have their own, below.
constexpr uint64_t kOfSteps = 1ull << 63;     // a step back, and the number of its turn
constexpr uint64_t kOfFresh = UINT64_MAX;     // the stream of fresh entropy
constexpr uint64_t kOfPlace = kOfFresh - 1;   // where the seed's own stream begins anew
constexpr uint64_t kOfPrograms = 1ull << 62;  // a program that a turn starts, and the number of the turn
constexpr uint64_t kOfCompletions = kOfPrograms - 2;
constexpr uint64_t kCompletionFuel = 200'000'000;
constexpr uint64_t kCompletionWallMs = 2000;
constexpr size_t kMostNames = 200;  // of a completion
constexpr size_t kMostDisplays = 1000;
constexpr size_t kMostTypes = 64;                                    // of one display
constexpr std::string_view kLeadsOut = "Capabilities insufficient";  // strerror() of WASI's ENOTCAPABLE
// Turns that are run again for a step back: as long as that costs little more than a copy of what the session has changed,
// which it saves each of them.
constexpr uint64_t kStepsFuel = 4'000'000;
constexpr uint64_t kStepsFuelPerByte = 2;  // of that copy
constexpr size_t kStepsBytes = 1u << 20;   // of their requests
constexpr const char* kGoesOn = "The session stands as it did before this turn.";

RichValue rich_value(const Json& bundle) {
  RichValue value;
  if (!bundle.is_object()) return value;
  for (const auto& [type, data] : bundle.items()) {
    if (value.size() == kMostTypes) break;
    if (data.is_string()) value.push_back({type, data.get<std::string>(), false});
    else if (data.is_object() && data.contains("base64") && data["base64"].is_string())
      value.push_back({type, data["base64"].get<std::string>(), true});
    else value.push_back({type, json_text(data), false});
  }
  return value;
}

// The line and the column that a check found.
ReportPlace place_in(const Json& error) {
  const auto number = [&](const char* name) {
    const auto found = error.find(name);
    return found != error.end() && found->is_number_unsigned()
               ? static_cast<uint32_t>(std::min<uint64_t>(found->get<uint64_t>(), UINT32_MAX))
               : 0u;
  };
  ReportPlace place;
  place.line = number("line");
  place.column = number("column");
  return place;
}

std::string text_at(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::vector<std::string> texts_at(const Json& object, const char* name) {
  std::vector<std::string> texts;
  if (const auto found = object.find(name); found != object.end() && found->is_array())
    for (const Json& each : *found)
      if (each.is_string()) texts.push_back(each.get<std::string>());
  return texts;
}

// It is kept until the turn is over, and the report copies its texts twice: as a value and as the result.
uint64_t size_of_result(const JsonSize& size) {
  constexpr uint64_t kCopies = 2;
  return size.kept_bytes() + kCopies * size.string_bytes;
}

// Null: UTC, as the template has it.
Json words_of_zone(const host::TimeZone* zone) {
  if (zone == nullptr) return nullptr;
  return {{"name", zone->name}, {"tzif_base64", base64_encode(zone->tzif)}};
}

bool are_alike(const std::shared_ptr<const host::TimeZone>& one,
               const std::shared_ptr<const host::TimeZone>& other) {
  if (one == nullptr || other == nullptr) return one == other;
  return one->name == other->name && one->tzif == other->tzif;
}

// The language has to have local time, and to take the zone's rules.
Status check_time_zone(const Template& of, const RunOptions& options) {
  if (options.time_zone == nullptr || of.interpreter().asks()) return {};
  return fail(ErrorCode::kUnsupported, "programs in " + of.package().name + " have no time zone but UTC",
              "Leave the time zone out, or use Python or JavaScript.");
}

std::unexpected<Error> nothing_to_abandon() {
  return fail(ErrorCode::kInvalidArgument, "no turn of the session waits or is paused",
              "There is nothing to give up: a turn that runs is stopped by cancel().");
}

MissingPackage missing_package_of(const Json& missing) {
  if (!missing.is_object()) return {};
  return {text_at(missing, "module"), texts_at(missing, "near"), texts_at(missing, "install")};
}

}  // namespace

class Session::Impl final : public host::DoorSession {
 public:
  Impl(std::shared_ptr<const Template> of, RunOptions options)
      : template_(std::move(of)),
        options_(std::move(options)),
        budget_(options_.budget ? options_.budget : std::make_shared<policy::Budget>(options_.policy.limits)),
        world_(world_of(options_, budget_)),
        fresh_(host::key_of_fork(key_given().value_or(RandomStream::key_of(options_.policy.random.seed)),
                                 kOfFresh)) {}

  using Image = std::shared_ptr<const engine::InstanceImage>;  // null: the template's
  using Zone = std::shared_ptr<const host::TimeZone>;          // null: UTC
  Status begin(std::unique_ptr<wasi::System> system, const Image& image,
               std::shared_ptr<const Waiting> waiting) {
    auto body = std::make_unique<Body>(Body::Surroundings{.said = &said_,
                                                          .broker = &world_->broker(),
                                                          .session = this,
                                                          .interpreter = &template_->interpreter(),
                                                          .must_stop = [this] { return must_stop(); },
                                                          .give_input = input_giver(),
                                                          .known = template_->known_places()},
                                       std::move(system));
    const auto limits = language_instance_limits(options_.policy.limits, template_->image());
    if (image == nullptr && waiting == nullptr && template_->waiting() != nullptr) {
      MEMBRANE_TRY(body->begin(template_->image().module(), limits));  // from its start
    } else {
      MEMBRANE_TRY(body->begin(image == nullptr ? template_->image() : *image, limits, std::move(waiting)));
    }
    body_ = std::move(body);
    stands_as(image);
    world_->bound_memory([this] { return body_->guest().host_memory().left_for_call(); });
    needs_entropy_ = true;
    return {};
  }

  wasi::World world() {
    return {
        .broker = &world_->broker(),
        .device = [this](std::string_view request) { return body_->answer(request); },
        .write = [this](host::Stream stream, std::string_view bytes,
                        std::string_view text) { return said_.write(stream, bytes, text); },
        .wait = [this](uint64_t ns) { return wait_unless([this] { return must_stop().has_value(); }, ns); },
        .sleeping = sleeping(),
        .sleep =
            [this](uint64_t ns) {
              return options_.sources->sleep_ns(ns, [this] { return must_stop().has_value(); });
            }};
  }
  [[nodiscard]] wasi::World::Sleeping sleeping() const {
    using enum wasi::World::Sleeping;
    if (options_.sources == nullptr) return kByClock;
    switch (options_.sources->sleep) {
      case host::Sources::Sleep::kByClock: return kByClock;
      case host::Sources::Sleep::kAtOnce: return kAtOnce;
      case host::Sources::Sleep::kInTime: return kWaits;
      case host::Sources::Sleep::kAsked: return options_.sources->sleep_ns ? kAsks : kByClock;
    }
    return kByClock;
  }
  // Of the seeded streams, where the embedder has given it.
  [[nodiscard]] std::optional<RandomStream::Key> key_given() const {
    return options_.sources != nullptr ? options_.sources->key : std::nullopt;
  }

  Report exec(const Turn& turn);
  Report go_on(std::optional<uint64_t> pause_at_fuel);
  Report resume(std::vector<FunctionAnswer> answers);
  Status abandon();
  void cancel_by(const std::atomic<bool>* cancel) { cancel_ = cancel; }
  [[nodiscard]] std::vector<FunctionCall> waits_for() const;
  Result<std::unique_ptr<Impl>> fork(uint64_t number) { return fork_as(number, options_); }
  std::vector<std::string> complete(std::string_view code);
  Result<std::vector<uint8_t>> keep();
  Result<std::vector<uint8_t>> keep_fork(uint64_t number);
  Status restore(const SessionState& state);

  [[nodiscard]] std::vector<ReportFile> files() const;

  // -- the door's session
  host::HostResult<std::string> next() override;
  host::HostResult<void> take_result(std::string_view request, host::HostMemory& memory) override;
  host::HostResult<std::string> fresh_entropy();
  host::HostResult<std::string> read_input() override;
  host::HostResult<std::string> read_file(std::string_view path) override {
    asks_others_ = true;
    constexpr uint64_t kForms = 4;  // as it is read, and as JSON in a string that grows
    const uint64_t most = body_->guest().host_memory().left_for_call() / kForms;
    return body_->system().load_file(body_->guest(), path,
                                     std::min(options_.policy.limits.module_bytes, most));
  }
  host::HostResult<JsonAnswer> call_functions(std::string_view request, bool may_wait) override;
  std::optional<JsonAnswer> ask_files(std::string_view request) override {
    if (!template_->interpreter().asks_for_files()) return std::nullopt;
    asks_others_ = true;
    return answer_files(body_->system(), body_->guest(), request);
  }

 private:
  friend class Session;
  friend class Session::Local;

  // To go back to.
  struct Checkpoint {
    Image image;
    std::unique_ptr<wasi::System> system;
    std::shared_ptr<const Waiting> waiting;
    Zone time_zone;
    std::string functions;
  };
  // A turn that asked nobody but its session and functions of the embedder: from the same place, and with the same answers of
  // theirs, it comes to the same again.
  struct Step {
    std::string request;
    std::vector<std::string> answers;
    uint64_t fuel;
  };
  // What the bytes of a session borrow while they are written.
  using KeptBytes = std::deque<std::vector<uint8_t>>;
  Status start_program(const Turn& turn);
  void record_calls(const KeptCalls& calls, double latency_us);
  Result<Checkpoint> checkpoint(uint64_t number);
  Status hold_origin();
  Status hold_origin_of(const Impl& other, uint64_t number);
  Status hold_origin_without_steps();
  void forget_steps();
  host::HostResult<JsonAnswer> answer_functions(std::string_view request, bool may_wait);
  void note_answer(const std::string& text);
  host::HostResult<JsonAnswer> answer_again();
  void add_step(uint64_t fuel);
  bool repeat_steps();
  [[nodiscard]] RunOptions unheard_options() const;
  [[nodiscard]] bool can_be_repeated() const;
  // Files that the owner has changed are no step.
  void forget_origin() {
    if (!body_->is_paused()) origin_.reset();
  }
  Result<Image> capture();
  // The instance is as this image until it runs; null: as nobody has captured yet.
  void stands_as(Image image) {
    as_it_stands_ = std::move(image);
    changes_as_it_stands_.reset();
  }
  Result<std::span<const uint8_t>> changes_of(const Image& image, KeptBytes& bytes);
  Result<std::unique_ptr<wasi::System>> fork_system(const wasi::System& system, uint64_t number,
                                                    const policy::Policy& policy, wasi::World world) const;
  // Where the randomness and the clock of a fork begin.
  struct ForkPlace {
    uint64_t number;  // among all that is made of a template
    RandomStream fresh;
    host::LocalBroker::Position sources;
  };
  [[nodiscard]] ForkPlace place_of_fork(uint64_t number) const;
  Result<std::unique_ptr<Impl>> fork_as(uint64_t number, RunOptions options);
  Status fork_paused(uint64_t number, Impl& child);
  Result<KeptPlace> keep_place(const Image& image, const wasi::System& system,
                               const std::shared_ptr<const Waiting>& waiting, KeptBytes& bytes);
  Result<KeptPause> keep_pause(KeptBytes& bytes);
  Result<SessionState> begin_to_keep(const wasi::System& system, KeptBytes& bytes);
  Result<Checkpoint> restore_place(const KeptPlace& place);
  Status check_waiting(const KeptPlace& place, const std::shared_ptr<const Waiting>& waiting);
  uint64_t begin_streams_anew(const RandomStream::Key& key);
  Status restore_pause(const KeptPause& pause);
  Status go_back();
  std::optional<Outcome> must_stop() const;
  // Whether the program may ask for input that the options read.
  [[nodiscard]] bool has_input() const { return (turn_input_ || options_.read_input) && !input_is_over_; }
  void end_input_of_turn();
  [[nodiscard]] std::function<bool()> input_giver();
  const std::string& given_functions();
  [[nodiscard]] Status check(const Turn& turn) const;
  void begin_turn(const Turn& turn);
  void begin_part();
  // What the output limit has left for the turn: its parts have one account.
  [[nodiscard]] uint64_t output_left() const {
    const uint64_t limit = options_.policy.limits.output_bytes;
    return limit - std::min(limit, output_of_turn_bytes_);
  }
  // A part of a turn, to its end or a pause: `run` is given its fuel, and says whether the turn returned.
  Report run_part(const std::function<bool(uint64_t fuel)>& run);
  // The hint, and what is left of the session, for who gives it another turn.
  [[nodiscard]] std::string and_goes_on(std::string hint) const {
    if (options_.is_single_turn) return hint;
    return (hint.empty() ? "" : std::move(hint) + " ") + kGoesOn;
  }
  void tell_result(Report& report);
  void tell_error(const Json& error, Report& report);
  // Of the program's own tree.
  [[nodiscard]] bool is_missing_directory(const std::string& path) {
    const auto there = wasi::act_on_files(body_->system(), {.path = path});
    return !there && there.error().code == host::Errno::kNotFound;
  }
  void tell_stop(Report& report);
  static void tell_lost_steps(const Error& error, Report& report);
  void tell_places(ReportError& error);
  [[nodiscard]] std::string memory_limit() const;
  void tell_rest(Report& report);
  [[nodiscard]] ReportPlace place(const engine::CodePlace& at) const;

  std::shared_ptr<const Template> template_;
  RunOptions options_;
  std::shared_ptr<policy::Budget> budget_;
  std::unique_ptr<host::World> world_;
  Conversation said_;
  std::unique_ptr<Body> body_;
  RandomStream fresh_;  // what turns are given of it is never given again, whatever they end in

  std::optional<KeptCalls> calls_;  // that the turn waits for, or that were answered while it was paused
  bool completes_ = false;          // its turn is to say which names there are
  std::optional<Turn> turn_;        // until it was asked for
  const std::atomic<bool>* cancel_ = options_.cancel;            // of the turn
  std::function<void(std::string_view)> on_stdout_, on_stderr_;  // that the turn came with
  // A place to go back to, while a turn runs or is paused: the turn began where steps_ lead from there. Between two turns
  // it is kept for the next one, or is not there.
  std::optional<Checkpoint> origin_;
  std::vector<Step> steps_;
  uint64_t steps_fuel_ = 0;
  size_t steps_bytes_ = 0;
  std::vector<std::string> answers_;  // of the embedder's functions to the turn, unless it asks others
  size_t answers_bytes_ = 0;
  const Step* repeats_ = nullptr;  // that is run again, and heard by nobody
  size_t repeated_answers_ = 0;
  std::string request_;        // of the turn
  bool asks_others_ = false;   // the turn has asked what may answer otherwise, or was paused
  bool runs_ = false;          // a part of a turn
  bool needs_entropy_ = true;  // the memory was copied since the program was given fresh entropy
  bool is_changed_ = false;    // since it began as the template
  Zone time_zone_;             // that the program has been told
  std::string functions_;      // the digest of those that it has been told; "" for none
  std::optional<std::string> given_functions_;  // that of the options' own, once it was asked for
  // Between two turns: what was captured, and how it differs from the template, so that the next fork or step back does
  // not look again. Until the instance runs.
  Image as_it_stands_;
  std::optional<std::vector<uint8_t>> changes_as_it_stands_;
  uint64_t turns_ = 0;
  uint64_t output_of_turn_bytes_ = 0;  // that the parts of the turn so far have printed and submitted
  Clock::time_point deadline_;
  std::optional<Json> result_;
  std::string input_ahead_;     // was read, and belongs to the next block
  uint64_t input_bytes_ = 0;    // that the program was given of what the options read
  bool input_is_over_ = false;  // there was no more of it
  // Of the turn alone; the three above are then its own, and what they were before stands in before_input_.
  std::function<InputPiece(std::chrono::milliseconds)> turn_input_;
  struct {
    std::string ahead;
    uint64_t bytes = 0;
    bool is_over = false;
  } before_input_;
  bool waits_for_input_ = false;
  std::string input_problem_;  // why there is no more of it; ends the run
  uint64_t result_bytes_ = 0;  // of the host's memory, for it and for what the report makes of it
};

// -- a turn -------------------------------------------------------------------------------------------------------

std::optional<Outcome> Session::Impl::must_stop() const {
  if (repeats_ != nullptr) return std::nullopt;
  if (options_.on_poll) options_.on_poll();
  if (!input_problem_.empty()) return Outcome::kInvalid;
  return stop_asked_for(cancel_, deadline_);
}

void Session::Impl::begin_turn(const Turn& turn) {
  const policy::Limits& limits = options_.policy.limits;
  if (!options_.budget) budget_->set(policy::Resource::kFuel, limits.fuel);
  world_->refill(limits);
  if (!turn.input.empty()) world_->note_input();
  turn_ = turn;
  cancel_ = turn.cancel != nullptr ? turn.cancel : options_.cancel;
  on_stdout_ = turn.on_stdout;
  on_stderr_ = turn.on_stderr;
  input_problem_.clear();
  waits_for_input_ = false;
  turn_input_ = turn.read_input;
  if (turn_input_)
    before_input_ = {std::exchange(input_ahead_, {}), std::exchange(input_bytes_, 0),
                     std::exchange(input_is_over_, false)};
  if (has_input() && input_giver()) body_->system().open_stdin();
  calls_.reset();
  result_.reset();
  result_bytes_ = 0;
  (void)body_->guest().host_memory().keep(host::HostMemory::Holder::kResult, 0);
  ++turns_;
  output_of_turn_bytes_ = 0;
  begin_part();
}

void Session::Impl::end_input_of_turn() {
  if (!std::exchange(turn_input_, nullptr)) return;
  body_->system().drop_stdin();
  input_ahead_ = std::move(before_input_.ahead);
  input_bytes_ = before_input_.bytes;
  input_is_over_ = before_input_.is_over;
}

void Session::Impl::begin_part() {
  const policy::Limits& limits = options_.policy.limits;
  const auto wall_end = Clock::now() + std::chrono::milliseconds(limits.wall_ms);
  if (!options_.budget) budget_->set_deadline(wall_end);
  deadline_ = std::min(wall_end, budget_->deadline());
  world_->bound(deadline_, cancel_);
  said_ = Conversation();
  said_.output_limit_bytes = output_left();
  hear_output(options_, said_);
  if (on_stdout_) said_.on_stdout = on_stdout_;
  if (on_stderr_) said_.on_stderr = on_stderr_;
}

// Not what a library unpacks for itself.
std::vector<ReportFile> Session::Impl::files() const {
  std::vector<ReportFile> files;
  for (const wasi::FileEntry& file : body_->system().written_files())
    if (file.type == wasi::FileType::kRegularFile && !file.path.starts_with("/usr/"))
      files.push_back({file.path, file.size});
  return files;
}

// A program that reads code alone has no way to the rest of a turn.
Status Session::Impl::check(const Turn& turn) const {
  if (runs_)
    return fail(ErrorCode::kInvalidArgument, "a turn of the session is running",
                "Run this after it: what a turn calls cannot run another turn of its session.");
  if (const auto calls = waits_for(); !calls.empty())
    return fail(
        ErrorCode::kInvalidArgument, "the session waits for the answer to its call of " + calls[0].name,
        "Answer the call: resume(). Or give it up: abandon() takes the session back to before its turn.");
  if (body_->is_paused())
    return fail(ErrorCode::kInvalidArgument, "the session's last turn is paused",
                "Let it go on (go_on(); in membrane repl :go), or work in a fork from before it.");
  if (turn.only_checks && !template_->interpreter().checks())
    return fail(ErrorCode::kUnsupported, template_->package().name + " checks no text without running it",
                "Run it, or check it with a tool of the language.");
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

// Over the files that earlier turns left. It begins where it first reads, unless it could find there what it would not
// have found: other arguments, or granted directories.
Status Session::Impl::start_program(const Turn& turn) {
  std::vector<std::string> arguments = wasi_config(*template_, options_.policy).arguments;
  arguments.insert(arguments.end(), turn.arguments.begin(), turn.arguments.end());
  MEMBRANE_ASSIGN(auto system, body_->system().fork({.fork_number = kOfPrograms + turns_,
                                                     .stdin_text = "",
                                                     .policy = &options_.policy,
                                                     .world = world(),
                                                     .starts_program = true,
                                                     .arguments = std::move(arguments)}));
  const bool is_warm = turn.arguments.empty() && options_.policy.fs.empty();
  return begin(std::move(system), nullptr, is_warm ? template_->waiting() : nullptr);
}

Report Session::Impl::go_on(std::optional<uint64_t> pause_at_fuel) {
  if (!body_->is_paused() || runs_)
    return refusal({ErrorCode::kInvalidArgument, "no turn is paused", "Begin one with exec()."});
  world_->go_on();
  begin_part();
  return run_part([&](uint64_t fuel) {
    return body_->go_on(fuel, pause_at_fuel) && template_->interpreter().go_on(*body_);
  });
}

Report Session::Impl::resume(std::vector<FunctionAnswer> answers) {
  if (!body_->is_paused() || !calls_)
    return refusal({ErrorCode::kInvalidArgument, "no turn waits for a function", "Begin one with exec()."});
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
  const uint64_t tokens_before = world_->tokens_used();
  const uint64_t used_before = body_->is_paused() ? body_->fuel_used() : 0;
  const uint64_t limit = options_.policy.limits.fuel - std::min(options_.policy.limits.fuel, used_before);
  const uint64_t fuel = budget_->take_up_to(policy::Resource::kFuel, limit);
  const bool restarts = template_->interpreter().restarts();
  stands_as(nullptr);
  const bool returned = run(fuel) || (restarts && body_->has_ended());
  engine::trim_kept_stack();
  budget_->give_back(policy::Resource::kFuel, fuel - (body_->fuel_used() - used_before));
  Report report;
  report.cost_version = engine::kCostVersion;
  report.fuel_used = body_->fuel_used();
  report.memory_peak_bytes = body_->instance().memory_bytes();
  report.tokens_used = world_->tokens_used() - tokens_before;
  const bool is_paused = body_->is_paused();
  if (is_paused) report.outcome = body_->awaits_answer() ? Outcome::kWaiting : Outcome::kFrozen;
  else if (returned && result_) tell_result(report);
  else if (!returned || !template_->interpreter().reads()) tell_stop(report);
  tell_rest(report);
  is_changed_ = !restarts || is_paused;  // a program that has ended leaves files only
  for (FunctionCall& call : waits_for())
    report.waits_for.push_back({call.name, call.arguments, call.keywords, call.object});
  if (is_paused) {
    asks_others_ = true;
  } else if (!returned || report.outcome == Outcome::kOutOfMemory) {
    if (const Status back = go_back(); !back) tell_lost_steps(back.error(), report);
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
    asks_others_ = true;  // run again, it would be given its own request
    return host::refuse(host::Errno::kNotFound, "there is no turn to run");
  }
  Json request = {{"code", turn_->code},
                  {"name", turn_->name.empty() ? "<cell " + std::to_string(turns_) + ">" : turn_->name}};
  if (completes_) request["mode"] = "complete";
  else if (turn_->only_checks) request["mode"] = "check";
  else if (turn_->is_script) request["mode"] = "script";
  if (!turn_->arguments.empty()) request["arguments"] = turn_->arguments;
  if (!turn_->input.empty()) request["input"] = turn_->input;
  if (has_input() && turn_->input.empty()) request["input_waits"] = true;
  if (turn_input_) request["input_is_new"] = true;
  if (turn_->declares_calls) request["declares_calls"] = true;
  if (!has_been_told(functions_, given_functions())) {
    MEMBRANE_ASSIGN(request["functions"],
                    host::read_json_for_guest(options_.guest_functions->description, "the functions"));
    functions_ = given_functions();
  }
  if (!are_alike(time_zone_, options_.time_zone)) request["zone"] = words_of_zone(options_.time_zone.get());
  time_zone_ = options_.time_zone;
  turn_.reset();
  if (needs_entropy_) {
    MEMBRANE_ASSIGN(const std::string entropy, fresh_entropy());
    request["fresh"] = {{"entropy_hex", hex_of(entropy)}};
    if (!template_->imports().empty()) request["packages"] = template_->imports();
    needs_entropy_ = false;
  }
  request_ = json_text(request);
  return request_;
}

// In blocks whose size does not depend on how the source delivers, so that the program sees the same at every run. Input of a
// turn alone comes from somebody who may wait for what the program says to it, and is not gathered.
host::HostResult<std::string> Session::Impl::read_input() {
  asks_others_ = true;
  std::string block = std::exchange(input_ahead_, {});
  waits_for_input_ = true;
  while (block.size() < kInputBlockBytes && has_input()) {
    if (must_stop()) return host::refuse(host::Errno::kHost, "the run is to end");
    if (turn_input_ && !block.empty()) break;
    InputPiece piece =
        sandbox::read_input(turn_input_ ? turn_input_ : options_.read_input, *world_, kInputPatience);
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
  input_problem_ = "the input has more than " + std::to_string(limit) + " bytes";
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

// Real entropy goes through the journal, so that a replay has the same. A turn that may make no host call has it all the
// same: it did not ask for it.
host::HostResult<std::string> Session::Impl::fresh_entropy() {
  if (options_.policy.random.real) {
    auto journaled = world_->broker().random_bytes(kFreshBytes);
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
    std::vector<FunctionAnswer> answers =
        answer_paid_calls(*options_.guest_functions, *world_, calls,
                          [this] { return stop_asked_for(cancel_, deadline_).has_value(); });
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
                        "the answers of " + std::to_string(text.size()) + " bytes have no room");
  return JsonAnswer{std::move(text)};
}

void Session::Impl::note_answer(const std::string& text) {
  if (asks_others_) return;
  if (steps_bytes_ + answers_bytes_ + text.size() > kStepsBytes) {
    asks_others_ = true;  // too much to keep: the turn is no step
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
  if (!result.is_object()) return host::refuse(host::Errno::kInvalid, "the result is no JSON object");
  const uint64_t bytes = size_of_result(measure_json(request));
  // Files may have taken all the room: how the turn ended can be told all the same.
  constexpr uint64_t kAlwaysTaken = 16u << 10;
  const bool has_room = memory.keep(kResult, bytes) ||
                        (bytes <= kAlwaysTaken && (memory.keep_what_is_there(kResult, bytes), true));
  if (!has_room)
    return host::refuse(host::Errno::kTooBig,
                        "there is no room for a result of " + std::to_string(request.size()) + " bytes");
  result_ = std::move(result);
  result_bytes_ = bytes;
  return {};
}

// -- the report ---------------------------------------------------------------------------------------------------

void Session::Impl::tell_result(Report& report) {
  const std::string outcome = text_at(*result_, "outcome");
  if (outcome == "exit") {
    const auto code = result_->find("exit_code");
    if (code == result_->end()) report.exit_code = 0;
    else if (code->is_number_integer())
      report.exit_code =
          exit_code_of_process(code->get<int64_t>());  // past 2^63 it is negative, and so outside
  }
  if (const auto value = result_->find("value"); value != result_->end()) report.value = rich_value(*value);
  for (const MimePart& part : report.value)
    if (part.type == "text/plain") report.result = part.data;
  if (const auto displays = result_->find("displays"); displays != result_->end() && displays->is_array())
    for (const Json& each : *displays)
      if (report.displays.size() < kMostDisplays) report.displays.push_back(rich_value(each));
  if (outcome == "incomplete") {
    report.outcome = Outcome::kRaised;
    report.errors.push_back(
        {std::string(kIncomplete), "the code is not whole", {}, "Give all of it.", {}, {}});
  }
  if (outcome == "error") tell_error((*result_)["error"], report);
}

std::string Session::Impl::memory_limit() const {
  const uint64_t limit = options_.policy.limits.memory_bytes;
  const uint64_t whole = language_instance_limits(options_.policy.limits, template_->image()).memory_bytes;
  const bool is_whole = whole < template_->image().memory_bytes() + limit;
  return "The memory limit is " + std::to_string(is_whole ? whole : limit) + " bytes" +
         (is_whole ? ", the interpreter's own among them" : " beyond the interpreter's own") +
         ". Make it hold less" + or_raise_memory(limit) + ".";
}

void Session::Impl::tell_error(const Json& error, Report& report) {
  ReportError told;
  if (error.is_object()) {
    told.code = text_at(error, "type");
    told.message = text_at(error, "message");
    told.traceback = text_at(error, "traceback");
    told.place = place_in(error);
  }
  if (told.code.empty()) told.code = "error";
  report.outcome = Outcome::kRaised;
  if (body_->instance().limit_was_hit() &&
      (told.code.ends_with("MemoryError") || told.code == "InternalError" || told.code == "null")) {
    // Where QuickJS has no room for an error, it throws null.
    if (told.code == "null") {
      told.message = "out of memory";
      told.traceback = "Uncaught InternalError: out of memory";
    }
    // What fills the memory may be held by the session's names: it could do nothing any more.
    report.outcome = Outcome::kOutOfMemory;
    told.hint = and_goes_on(memory_limit());
  }
  if (told.code == "MemoryError" && told.message.empty()) {  // what CPython raises says nothing
    told.message = "out of memory";
    if (told.hint.empty()) told.hint = memory_limit();
  }
  const host::CallRecord* const denial = body_->dispatcher().last_denial();
  const host::HostError* const denied_file = body_->system().last_denial();
  const std::string grant = denial != nullptr        ? denial->grant
                            : denied_file != nullptr ? denied_file->grant
                                                     : "";
  // A language knows a write below a grant to read as one to a read-only file system.
  const bool is_read_only = denied_file != nullptr && told.message.contains("Read-only file system");
  // They know a path that no grant leads to as one that is not there.
  const bool is_not_there = told.code == "FileNotFoundError" || told.message.starts_with("ENOENT: ");
  const std::string path = is_not_there ? path_in(told.message) : "";
  const bool is_not_led_to = denied_file != nullptr && !path.empty() && denied_file->reason.contains(path);
  // No grant would let it go, so that none stands in the message.
  const bool is_held_back = denial != nullptr && denial->reason.starts_with(host::kTrifectaRule) &&
                            told.message.contains(host::kTrifectaRule);
  const bool tells_of_it = told.code.ends_with("PermissionError") || is_read_only || is_held_back ||
                           (!grant.empty() && told.message.find(grant) != std::string::npos);
  if (tells_of_it && (denial != nullptr || denied_file != nullptr)) {
    report.outcome = Outcome::kDenied;
    if (!grant.empty() && !is_held_back) told.hint = allowed_by(is_read_only ? denied_file->grant : grant);
  } else if (is_not_led_to) {
    const std::string_view reason = denied_file->reason;
    constexpr std::string_view kToWrite = " to write ";
    if (const size_t at = reason.find(kToWrite); at != std::string_view::npos)
      told.hint =
          hint_of_missing_directory(reason.substr(at + kToWrite.size()), template_->package().driver) + " ";
    told.hint += granted_directories(options_.policy) + " " + allowed_by(denied_file->grant);
  } else if (told.message.contains(kLeadsOut)) {
    report.outcome = Outcome::kDenied;
    told.hint =
        "The path leads out of what the program sees. Grant the directory at a place, and open the file "
        "there: "
        "--allow fs:read:../data:/data, and /data/x.csv.";
  } else if (path.starts_with("/tmp/") && told.hint.empty()) {
    told.hint = "/tmp is the program's own: it has what programs have put there.";
    if (is_missing_directory(path.substr(0, path.rfind('/'))))
      told.hint += " " + hint_of_missing_directory(path, template_->package().driver);
  } else if (!path.empty() && told.hint.empty()) {
    told.hint = granted_directories(options_.policy);
  }
  if (told.hint.empty() && error.is_object())
    if (const auto missing = error.find("missing"); missing != error.end())
      told.hint = hint_of_missing(missing_package_of(*missing), options_.packages_by);
  report.errors.push_back(std::move(told));
}

ReportPlace Session::Impl::place(const engine::CodePlace& at) const {
  return {wasm::place_of_function(body_->instance().module(), at.function), at.code_offset, 0, 0};
}

void Session::Impl::tell_stop(Report& report) {
  const Body::Stop& stop = body_->stop();
  const policy::Limits& limits = options_.policy.limits;
  ReportError error;
  const auto told = [&](Outcome outcome, std::string message, std::string hint) {
    report.outcome = outcome;
    error.code = std::string(name_of(outcome));
    error.message = std::move(message);
    error.hint = and_goes_on(std::move(hint));
  };
  const auto stopped = [&](Outcome outcome) {
    report.outcome = outcome;
    error = stop_error(outcome, limits);
    error.hint = and_goes_on(std::move(error.hint));
  };
  const bool restarts = template_->interpreter().restarts();
  if (stop.state == engine::RunState::kExited ||
      (stop.state == engine::RunState::kFinished && !stop.outcome &&
       (template_->interpreter().reads() || restarts))) {
    report.exit_code = static_cast<int>(body_->system().exit_code().value_or(0));
    if (report.exit_code == 0 || restarts) return;
    told(Outcome::kRaised,
         "the program ended the interpreter with exit code " + std::to_string(*report.exit_code),
         options_.is_single_turn            ? ""
         : template_->interpreter().reads() ? "What has ended cannot take another turn."
                                            : "End with sys.exit() to keep the session's state.");
  } else if (!input_problem_.empty()) {
    told(Outcome::kInvalid, input_problem_, "Give it less, or raise limits.bytes_in (--bytes-in).");
  } else if (stop.outcome == Outcome::kTimedOut && waits_for_input_) {
    stopped(*stop.outcome);
    error.message += ", waiting for its standard input, which has not ended";
    error.hint = and_goes_on("Give it an input that ends; < /dev/null is an empty one.");
  } else if (stop.outcome == Outcome::kTimedOut || stop.outcome == Outcome::kCancelled) {
    stopped(*stop.outcome);
  } else if (stop.outcome == Outcome::kOutOfOutput) {
    told(
        Outcome::kOutOfOutput,
        "the program printed more than its output limit of " + std::to_string(limits.output_bytes) + " bytes",
        "Print less" + or_raise_output(limits.output_bytes) + ".");
  } else if (stop.state == engine::RunState::kOutOfFuel || stop.outcome == Outcome::kOutOfFuel) {
    stopped(Outcome::kOutOfFuel);
  } else if (stop.state == engine::RunState::kTrapped) {
    const bool no_memory = body_->instance().limit_was_hit() || stop.outcome == Outcome::kOutOfMemory;
    told(no_memory ? Outcome::kOutOfMemory : Outcome::kTrapped, stop.trap.message,
         no_memory ? memory_limit() : std::string(hint_of(stop.trap.kind)));
    if (!no_memory) error.code = std::string(name_of(stop.trap.kind));
    if (!stop.trap.backtrace.empty()) error.place = place(stop.trap.backtrace.front());
  } else if (stop.state == engine::RunState::kFinished && !stop.outcome &&
             body_->instance().limit_was_hit()) {
    told(Outcome::kOutOfMemory, "there was no memory left for the program's result", memory_limit());
  } else if (stop.state == engine::RunState::kFinished && !stop.outcome) {
    told(Outcome::kRaised, "the program has no result: it changed what the interpreter itself stands on",
         "Leave the built-in objects as they are.");
  } else {
    told(Outcome::kFailed, stop.message.empty() ? "the interpreter did not answer" : stop.message, "");
  }
  tell_places(error);
  report.errors.push_back(std::move(error));
}

// It cannot happen as long as the engine is deterministic; if it does, nobody is to go on from the wrong place unaware.
void Session::Impl::tell_lost_steps(const Error& error, Report& report) {
  report.outcome = Outcome::kFailed;
  report.errors.insert(report.errors.begin(),
                       {"lost",
                        "the session could not be taken back to before this turn: " + error.message,
                        {},
                        "End it, and begin a new session.",
                        {},
                        {}});
}

// Its own places are better than those of its interpreter's machine code.
void Session::Impl::tell_places(ReportError& error) {
  std::vector<ReportPlace> places = template_->interpreter().places(*body_);
  if (places.empty()) return;
  error.place = std::move(places.front());
  error.backtrace.assign(std::make_move_iterator(places.begin() + 1), std::make_move_iterator(places.end()));
}

void Session::Impl::tell_rest(Report& report) {
  if (!body_->is_paused()) body_->system().finish(body_->guest());
  tell_conversation(std::move(said_), report);
  body_->list_calls_of_system();
  tell_host_calls(body_->dispatcher(), report);
  report.flows = world_->flow_report();
  tell_unanswered(report);
  tell_files(options_, body_->system(), files(), report);
  if (const auto& divergence = world_->divergence()) tell_divergence(*divergence, "turns", report);
  const uint64_t printed = report.stdout_text.size() + report.stderr_text.size() + report.answer.size();
  limit_output(report, output_left());
  output_of_turn_bytes_ += printed;
}

// -- forks and steps back -----------------------------------------------------------------------------------------

Result<std::unique_ptr<wasi::System>> Session::Impl::fork_system(const wasi::System& system, uint64_t number,
                                                                 const policy::Policy& policy,
                                                                 wasi::World world) const {
  return system.fork({.fork_number = number,
                      .stdin_waits = template_->interpreter().reads(),
                      .policy = &policy,
                      .world = std::move(world)});
}

Result<Session::Impl::Checkpoint> Session::Impl::checkpoint(uint64_t number) {
  Checkpoint made;
  MEMBRANE_ASSIGN(made.system, fork_system(body_->system(), kOfSteps + number, options_.policy, world()));
  made.waiting = body_->waiting();
  made.time_zone = time_zone_;
  made.functions = functions_;
  MEMBRANE_ASSIGN(made.image, capture());
  return made;
}

Result<Session::Impl::Image> Session::Impl::capture() {
  if (!is_changed_) return nullptr;
  if (as_it_stands_ == nullptr) {
    MEMBRANE_ASSIGN(auto image,
                    engine::InstanceImage::capture(body_->instance(), engine::InstanceImage::Keep::kChanges));
    stands_as(std::move(image));
  }
  return as_it_stands_;
}

// Makes sure that there is a place to go back to. A turn that is run again is the quicker one of the two ways back as long
// as little has been done since the last place.
Status Session::Impl::hold_origin() {
  const uint64_t copied = origin_ && origin_->image != nullptr ? origin_->image->changed_bytes() : 0;
  const bool are_few = steps_fuel_ <= kStepsFuel + kStepsFuelPerByte * copied && steps_bytes_ <= kStepsBytes;
  const bool is_copied_already = !steps_.empty() && as_it_stands_ != nullptr;
  if (origin_ && are_few && !is_copied_already) return {};
  MEMBRANE_ASSIGN(origin_, checkpoint(turns_));
  forget_steps();
  return {};
}

void Session::Impl::forget_steps() {
  steps_.clear();
  steps_fuel_ = steps_bytes_ = 0;
}

// Holds a copy of another session's origin.
Status Session::Impl::hold_origin_of(const Impl& other, uint64_t number) {
  const Checkpoint& from = *other.origin_;
  origin_.emplace();
  MEMBRANE_ASSIGN(origin_->system, fork_system(*from.system, number, options_.policy, world()));
  origin_->image = from.image;
  origin_->waiting = from.waiting;
  origin_->time_zone = from.time_zone;
  origin_->functions = from.functions;
  return {};
}

// Whether the turn that has just ended depended on nothing but the session and its request.
bool Session::Impl::can_be_repeated() const {
  const Interpreter& interpreter = template_->interpreter();
  return interpreter.asks() && !interpreter.reads() && !interpreter.restarts() && !asks_others_ &&
         !body_->asked_others() && !body_->instance().limit_was_hit();
}

void Session::Impl::add_step(uint64_t fuel) {
  steps_fuel_ += fuel;
  steps_bytes_ += request_.size() + answers_bytes_;
  steps_.push_back({std::move(request_), std::move(answers_), fuel});
}

Status Session::Impl::go_back() {
  MEMBRANE_ASSIGN(auto system, fork_system(*origin_->system, kOfSteps + turns_, options_.policy, world()));
  is_changed_ = origin_->image != nullptr;
  MEMBRANE_TRY(begin(std::move(system), origin_->image, origin_->waiting));
  time_zone_ = origin_->time_zone;
  functions_ = origin_->functions;
  if (repeat_steps()) return {};
  forget_steps();
  origin_.reset();
  return fail(ErrorCode::kInternal, "turns that were run again did not come to the same", "");
}

// Brings the session from its origin to where the steps lead. False when it comes to another place.
bool Session::Impl::repeat_steps() {
  const auto is_the_same = [this](const Step& step) {
    said_ = Conversation();
    said_.output_limit_bytes = UINT64_MAX;
    repeats_ = &step;
    repeated_answers_ = 0;
    body_->start_run(language_execution_limits(options_.policy.limits), options_.policy.limits.fuel);
    const bool returned = template_->interpreter().turn(*body_, step.request);
    repeats_ = nullptr;
    return returned && body_->fuel_used() == step.fuel;
  };
  for (const Step& step : steps_) {
    is_changed_ = true;
    stands_as(nullptr);
    time_zone_ = options_.time_zone;  // its request has told it, and the functions
    functions_ = given_functions();
    if (!is_the_same(step)) return false;
  }
  result_.reset();
  calls_.reset();
  return true;
}

// Of a session beside this one, whose turns the owner neither hears nor pays for.
RunOptions Session::Impl::unheard_options() const {
  RunOptions options = options_;
  options.on_stdout = options.on_stderr = nullptr;
  options.on_file = nullptr;
  options.budget = nullptr;
  options.flows = nullptr;
  return options;
}

// So that the place alone says where the turn began that is paused.
Status Session::Impl::hold_origin_without_steps() {
  if (steps_.empty()) return {};
  RunOptions options = unheard_options();
  options.on_poll = nullptr;
  options.record = nullptr;
  options.read_input = nullptr;
  Impl beside(template_, std::move(options));
  beside.turns_ = turns_;
  MEMBRANE_TRY(beside.hold_origin_of(*this, kOfSteps + turns_));
  beside.steps_ = steps_;
  MEMBRANE_TRY(beside.go_back());
  MEMBRANE_ASSIGN(origin_->image, beside.capture());
  MEMBRANE_ASSIGN(origin_->system,
                  fork_system(beside.body_->system(), kOfSteps + turns_, options_.policy, world()));
  origin_->waiting = beside.body_->waiting();
  origin_->time_zone = beside.time_zone_;
  origin_->functions = beside.functions_;
  forget_steps();
  return {};
}

// Whether it is a name by its characters, and begins as the last word of the code does: the program could say anything,
// and a terminal shows it.
static bool is_completion(std::string_view name, std::string_view code) {
  const auto is_of_name = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '$' || static_cast<unsigned char>(c) >= 0x80;
  };
  const auto word = std::ranges::find_if_not(code | std::views::reverse, is_of_name).base();
  return !name.empty() && std::ranges::all_of(name, is_of_name) && printable_line(name) == name &&
         name.starts_with(code.substr(static_cast<size_t>(word - code.begin())));
}

std::vector<std::string> Session::Impl::complete(std::string_view code) {
  if (!template_->interpreter().completes() || body_->is_paused()) return {};
  RunOptions options = unheard_options();
  if (std::exchange(options.sources, nullptr) != nullptr) {  // the embedder is not asked
    options.policy.time = {};
    options.policy.random = {};
  }
  policy::Limits& limits = options.policy.limits;
  limits.fuel = std::min(limits.fuel, kCompletionFuel);
  limits.wall_ms = std::min(limits.wall_ms, kCompletionWallMs);
  limits.host_calls = limits.bytes_in = limits.bytes_out = limits.tokens = 0;
  auto apart = fork_as(kOfCompletions, std::move(options));
  if (!apart) return {};
  (*apart)->completes_ = true;
  const Report report = (*apart)->exec({.code = std::string(code)});
  std::vector<std::string> names;
  if (report.outcome == Outcome::kOk)
    for (const auto line : std::views::split(report.result, '\n'))
      if (const std::string_view name(line.begin(), line.end());
          names.size() < kMostNames && is_completion(name, code))
        names.emplace_back(name);
  return names;
}

// A place of its own in the seed's stream, far from where others can come to; the clock does not go back.
Session::Impl::ForkPlace Session::Impl::place_of_fork(uint64_t number) const {
  number = (number + 1) % kOfPrograms;
  RandomStream fresh(host::key_of_fork(fresh_.key(), number));
  const uint64_t seed_place = fresh.next_u64() >> 1;
  return {number, fresh, {seed_place, world_->position().clock_readings}};
}

Result<std::unique_ptr<Session::Impl>> Session::Impl::fork_as(uint64_t number, RunOptions options) {
  MEMBRANE_ASSIGN(const Image image, capture());
  options.record = nullptr;
  options.read_input = nullptr;
  auto child = std::make_unique<Impl>(template_, std::move(options));
  const ForkPlace place = place_of_fork(number);
  child->fresh_ = place.fresh;
  child->world_->go_to(place.sources);
  child->world_->add_flows(world_->flow_state());
  child->turns_ = turns_;
  child->is_changed_ = is_changed_;
  child->time_zone_ = time_zone_;
  child->functions_ = functions_;
  child->given_functions_ = given_functions_;
  MEMBRANE_ASSIGN(auto system,
                  fork_system(body_->system(), place.number, child->options_.policy, child->world()));
  MEMBRANE_TRY(child->begin(std::move(system), image, body_->waiting()));
  if (body_->is_paused()) MEMBRANE_TRY(fork_paused(place.number, *child));
  return child;
}

// What the child needs of the turn that is paused, besides its image.
Status Session::Impl::fork_paused(uint64_t number, Impl& child) {
  MEMBRANE_ASSIGN(const Paused paused, body_->pause());
  child.body_->start_run(language_execution_limits(child.options_.policy.limits), 0);
  MEMBRANE_TRY(child.body_->resume_at(paused));
  child.turn_ = turn_;
  child.calls_ = calls_;
  child.output_of_turn_bytes_ = output_of_turn_bytes_;
  child.result_ = result_;
  child.result_bytes_ = result_bytes_;
  (void)child.body_->guest().host_memory().keep(host::HostMemory::Holder::kResult, result_bytes_);
  MEMBRANE_TRY(hold_origin_without_steps());
  MEMBRANE_TRY(child.hold_origin_of(*this, number));
  child.asks_others_ = true;
  return {};
}

// -- as bytes -----------------------------------------------------------------------------------------------------

Result<std::span<const uint8_t>> Session::Impl::changes_of(const Image& image, KeptBytes& bytes) {
  if (image == as_it_stands_ && changes_as_it_stands_) return *changes_as_it_stands_;
  MEMBRANE_ASSIGN(auto changes, engine::write_changes(*image, template_->image()));
  if (image != as_it_stands_) return bytes.emplace_back(std::move(changes));
  return changes_as_it_stands_.emplace(std::move(changes));
}

Result<KeptPlace> Session::Impl::keep_place(const Image& image, const wasi::System& system,
                                            const std::shared_ptr<const Waiting>& waiting, KeptBytes& bytes) {
  using enum KeptPlace::Waits;
  KeptPlace kept;
  if (image != nullptr) {
    MEMBRANE_ASSIGN(kept.changes, changes_of(image, bytes));
  }
  MEMBRANE_ASSIGN(auto frozen, system.freeze());
  kept.wasi = bytes.emplace_back(std::move(frozen));
  if (waiting != nullptr) kept.waits = waiting == template_->waiting() ? kAsTheTemplate : kInItsFrames;
  if (kept.waits == kInItsFrames) {
    kept.frames = waiting->frames;
    kept.heap_next = waiting->heap_next;
  }
  return kept;
}

Result<KeptPause> Session::Impl::keep_pause(KeptBytes& bytes) {
  KeptPause kept;
  MEMBRANE_ASSIGN(Paused paused, body_->pause());
  kept.frames = bytes.emplace_back(std::move(paused.frames));
  kept.notes = std::move(paused.notes);
  kept.progress = std::move(paused.progress);
  kept.fuel_used = paused.fuel_used;
  kept.turn = turn_;
  if (result_) kept.result = json_text(*result_);
  kept.result_bytes = result_bytes_;
  kept.output_bytes = output_of_turn_bytes_;
  if (!options_.budget) {
    const policy::Limits& limits = options_.policy.limits;
    const host::World::Amounts left = world_->left();
    const auto used = [](uint64_t limit, uint64_t rest) { return limit - std::min(limit, rest); };
    kept.host_calls = used(limits.host_calls, left.host_calls);
    kept.bytes_in = used(limits.bytes_in, left.bytes_in);
    kept.bytes_out = used(limits.bytes_out, left.bytes_out);
    kept.tokens = used(limits.tokens, left.tokens);
  }
  kept.history = body_->dispatcher().history();
  kept.calls = calls_;
  MEMBRANE_TRY(hold_origin_without_steps());
  MEMBRANE_ASSIGN(kept.before, keep_place(origin_->image, *origin_->system, origin_->waiting, bytes));
  if (origin_->time_zone != nullptr) kept.before.time_zone = *origin_->time_zone;
  kept.before.functions = origin_->functions;
  return kept;
}

// What stands in the same words of a session and of its forks.
Result<SessionState> Session::Impl::begin_to_keep(const wasi::System& system, KeptBytes& bytes) {
  if (world_->has_store_in_memory())
    return fail(ErrorCode::kUnsupported,
                "the session has used a key-value store in memory, which is not kept",
                "Grant one in a file (--allow kv:PATH), which is found again.");
  MEMBRANE_ASSIGN(const Image image, capture());
  SessionState state;
  state.template_name = template_->package().name;
  MEMBRANE_ASSIGN(state.template_identity, template_->identity());
  MEMBRANE_ASSIGN(state.place, keep_place(image, system, body_->waiting(), bytes));
  if (time_zone_ != nullptr) state.place.time_zone = *time_zone_;
  state.place.functions = functions_;
  if (const host::HostError* const denial = system.last_denial())
    state.last_denial = {denial->code, denial->reason, denial->grant};
  state.turns = turns_;
  return state;
}

Result<std::vector<uint8_t>> Session::Impl::keep() {
  KeptBytes bytes;
  MEMBRANE_ASSIGN(SessionState state, begin_to_keep(body_->system(), bytes));
  state.memory_limit_was_hit = body_->instance().limit_was_hit();
  state.heap_next = body_->guest().heap_next();
  state.needs_entropy = needs_entropy_;
  state.fresh = fresh_;
  state.sources = world_->position();
  state.input_ahead = input_ahead_;
  state.input_bytes = input_bytes_;
  state.input_is_over = input_is_over_;
  state.flows = world_->flow_state();
  if (body_->is_paused()) {
    MEMBRANE_ASSIGN(state.pause, keep_pause(bytes));
  }
  return write_session(std::move(state));
}

Result<std::vector<uint8_t>> Session::Impl::keep_fork(uint64_t number) {
  if (body_->is_paused())
    return fail(ErrorCode::kUnsupported, "a turn of the session is paused", "Let it go on first.");
  KeptBytes bytes;
  const ForkPlace place = place_of_fork(number);
  MEMBRANE_ASSIGN(const auto system, fork_system(body_->system(), place.number, options_.policy, world()));
  MEMBRANE_ASSIGN(SessionState state, begin_to_keep(*system, bytes));
  state.heap_next = body_->waiting() != nullptr ? body_->waiting()->heap_next : body_->guest().heap_start();
  state.needs_entropy = true;
  state.fresh = place.fresh;
  state.sources = place.sources;
  state.flows = world_->flow_state();
  return write_session(std::move(state));
}

static std::unexpected<Error> damaged_session(const char* what) {
  return fail(ErrorCode::kInvalidInput, std::string("the session is damaged: ") + what,
              "Restore the bytes as they were kept, or begin a new session.");
}

Result<Session::Impl::Checkpoint> Session::Impl::restore_place(const KeptPlace& place) {
  using enum KeptPlace::Waits;
  const Interpreter& interpreter = template_->interpreter();
  const bool can_wait = interpreter.reads() || interpreter.restarts();
  const bool waits = place.waits != kNowhere;
  if ((waits && !can_wait) || (!waits && interpreter.reads()) ||
      (place.waits == kAsTheTemplate && template_->waiting() == nullptr))
    return damaged_session("its program does not wait so");
  Checkpoint made;
  if (!place.changes.empty()) {
    const auto limits = language_instance_limits(options_.policy.limits, template_->image());
    MEMBRANE_ASSIGN(made.image, engine::read_changes(place.changes, template_->image(), limits));
  }
  wasi::Config config = wasi_config(*template_, options_.policy);
  config.world = world();
  MEMBRANE_ASSIGN(made.system, wasi::System::thaw(place.wasi, std::move(config)));
  if (options_.sources != nullptr) made.system->skip(options_.sources->skipped_ns);
  if (place.time_zone) made.time_zone = std::make_shared<const host::TimeZone>(*place.time_zone);
  made.functions = place.functions;
  if (place.waits == kAsTheTemplate) made.waiting = template_->waiting();
  if (place.waits == kInItsFrames) {
    made.waiting = std::make_shared<const Waiting>(
        Waiting{{place.frames.begin(), place.frames.end()}, place.heap_next, template_->known_places()});
  }
  return made;
}

// Frames that are not the template's can be forged.
Status Session::Impl::check_waiting(const KeptPlace& place, const std::shared_ptr<const Waiting>& waiting) {
  if (place.waits != KeptPlace::Waits::kInItsFrames) return {};
  return body_->check(*waiting, language_execution_limits(options_.policy.limits));
}

Status Session::Impl::restore(const SessionState& state) {
  MEMBRANE_ASSIGN(const engine::ImageIdentity identity, template_->identity());
  if (state.template_identity != identity)
    return fail(
        ErrorCode::kInvalidInput,
        "the session is of another template (" + state.template_name + "), or of another version of it",
        "Restore it with the template that it was kept with: the same language, packages and modules.");
  MEMBRANE_ASSIGN(Checkpoint place, restore_place(state.place));
  is_changed_ = place.image != nullptr;
  time_zone_ = place.time_zone;
  functions_ = place.functions;
  MEMBRANE_TRY(begin(std::move(place.system), place.image, std::move(place.waiting)));
  MEMBRANE_TRY(check_waiting(state.place, body_->waiting()));
  if (state.memory_limit_was_hit) body_->instance().note_limit_was_hit();
  if (state.last_denial)
    body_->system().set_last_denial(
        {state.last_denial->code, state.last_denial->reason, state.last_denial->grant});
  body_->guest().set_heap_next(state.heap_next);
  turns_ = state.turns;
  needs_entropy_ = state.needs_entropy;
  fresh_ = *state.fresh;
  host::LocalBroker::Position sources = state.sources;
  if (const auto key = key_given()) sources.random_bytes = begin_streams_anew(*key);
  world_->go_to(sources);
  world_->add_flows(state.flows);
  input_ahead_ = state.input_ahead;
  input_bytes_ = state.input_bytes;
  input_is_over_ = state.input_is_over;
  return state.pause ? restore_pause(*state.pause) : Status();
}

// What was kept has drawn from its streams: those of another seed follow from where they stood, so that nothing comes twice. Gives
// the place in the seed's own stream, which is far from where others can come to.
uint64_t Session::Impl::begin_streams_anew(const RandomStream::Key& key) {
  body_->system().reseed(key);
  fresh_ = RandomStream(host::key_of_both(fresh_, key));
  needs_entropy_ = true;
  return RandomStream(host::key_of_fork(fresh_.key(), kOfPlace)).next_u64() >> 1;
}

Status Session::Impl::restore_pause(const KeptPause& pause) {
  if (pause.result) {
    MEMBRANE_ASSIGN(Json result, read_json(*pause.result, "the result of its turn"));
    if (!result.is_object()) return damaged_session("the result of its turn is no object");
    const JsonSize size = measure_json(*pause.result);
    result_ = std::move(result);
    result_bytes_ = std::max(pause.result_bytes, size_of_result(size));
    (void)body_->guest().host_memory().keep_what_is_there(host::HostMemory::Holder::kResult, result_bytes_);
  }
  MEMBRANE_ASSIGN(origin_, restore_place(pause.before));
  if (const auto key = key_given()) origin_->system->reseed(*key);
  MEMBRANE_TRY(check_waiting(pause.before, origin_->waiting));
  asks_others_ = true;
  body_->start_run(language_execution_limits(options_.policy.limits), 0);
  Paused paused{{pause.frames.begin(), pause.frames.end()},
                pause.notes,
                pause.progress,
                body_->guest().heap_next(),
                pause.fuel_used,
                template_->known_places()};
  MEMBRANE_TRY(body_->resume_at(paused));
  body_->dispatcher().go_on_from(pause.history);
  turn_ = pause.turn;
  calls_ = pause.calls;
  output_of_turn_bytes_ = pause.output_bytes;
  const policy::Limits& limits = options_.policy.limits;
  world_->refill(limits);
  world_->take_after({pause.host_calls, pause.bytes_in, pause.bytes_out, pause.tokens});
  if (!options_.budget)
    budget_->set(policy::Resource::kFuel, limits.fuel - std::min(limits.fuel, pause.fuel_used));
  return {};
}

// -- the face -----------------------------------------------------------------------------------------------------

Status Session::abandon() { return nothing_to_abandon(); }

class Session::Local final : public Session {
 public:
  explicit Local(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

  Report exec(const Turn& turn) override { return impl_->exec(turn); }
  Report go_on(std::optional<uint64_t> pause_at_fuel) override { return impl_->go_on(pause_at_fuel); }
  void end(Report& report) override {
    end_replay(*impl_->world_, report);
    if (const auto& divergence = impl_->world_->divergence()) tell_divergence(*divergence, "turns", report);
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
  MEMBRANE_TRY(check_replayed_grants(*impl->world_, impl->options_.policy));
  MEMBRANE_TRY(check_time_zone(from, impl->options_));
  MEMBRANE_ASSIGN(auto system, from.new_system(impl->options_.policy, impl->world(), impl->key_given()));
  MEMBRANE_TRY(impl->begin(std::move(system), nullptr, from.waiting()));
  return std::make_unique<Local>(std::move(impl));
}

Result<std::unique_ptr<Session>> Session::restore(std::shared_ptr<const Template> of,
                                                  std::span<const uint8_t> bytes, RunOptions options) {
  MEMBRANE_ASSIGN(const SessionState state, read_session(bytes));
  auto impl = std::make_unique<Impl>(std::move(of), std::move(options));
  MEMBRANE_TRY(check_replayed_grants(*impl->world_, impl->options_.policy));
  MEMBRANE_TRY(check_time_zone(*impl->template_, impl->options_));
  MEMBRANE_TRY(impl->restore(state));
  return std::make_unique<Local>(std::move(impl));
}

}  // namespace membrane::sandbox
