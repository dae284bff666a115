// A session in this process: its state, and the layer between its program and the outside. session.cc runs its
// turns, session_report.cc reports their results, session_steps.cc forks it and undoes turns, session_bytes.cc saves
// it.
//
// Threads: one at a time.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "host/sources/random_fork.h"
#include "host/world/world.h"
#include "sandbox/run/guest_functions.h"
#include "sandbox/run/report_building.h"
#include "sandbox/run/run_context.h"
#include "sandbox/run/stops.h"
#include "sandbox/session/body.h"
#include "sandbox/session/file_requests.h"
#include "sandbox/session/language_limits.h"
#include "sandbox/session/session.h"
#include "sandbox/session/session_state.h"

namespace membrane::sandbox {

// Numbers that distinguish streams forked from one stream of randomness; forks of the session use lower ones.
constexpr uint64_t kOfSteps = 1ull << 63;     // for a step back; plus the number of its turn
constexpr uint64_t kOfFresh = UINT64_MAX;     // the stream of fresh entropy
constexpr uint64_t kOfPlace = kOfFresh - 1;   // where the seed's own stream restarts
constexpr uint64_t kOfPrograms = 1ull << 62;  // for a program that a turn starts; plus the number of the turn
constexpr uint64_t kOfCompletions = kOfPrograms - 2;

// Bound on the requests and answers of turns that are repeated for a step back.
constexpr size_t kStepsBytes = 1u << 20;

class Session::Impl final : public host::DoorSession {
 public:
  Impl(std::shared_ptr<const Template> of, RunOptions options)
      : template_(std::move(of)),
        options_(std::move(options)),
        context_(options_),
        fresh_(host::key_of_fork(key_given().value_or(RandomStream::key_of(options_.policy.random.seed)),
                                 kOfFresh)) {}

  using Image = std::shared_ptr<const engine::InstanceImage>;  // null: the template's
  using Zone = std::shared_ptr<const host::TimeZone>;          // null: UTC
  Status begin(std::unique_ptr<wasi::System> system, const Image& image,
               std::shared_ptr<const Waiting> waiting) {
    auto body = std::make_unique<Body>(Body::Surroundings{.output = &context_.output(),
                                                          .broker = &world().broker(),
                                                          .session = this,
                                                          .interpreter = &template_->interpreter(),
                                                          .must_stop = [this] { return must_stop(); },
                                                          .give_input = input_giver(),
                                                          .known = template_->known_places()},
                                       std::move(system));
    const auto limits = language_instance_limits(options_.policy.limits, template_->image());
    if (image == nullptr && waiting == nullptr && template_->waiting() != nullptr) {
      MEMBRANE_TRY(body->begin(template_->image().module(), limits));  // from the module's start
    } else {
      MEMBRANE_TRY(body->begin(image == nullptr ? template_->image() : *image, limits, std::move(waiting)));
    }
    body_ = std::move(body);
    stands_as(image);
    context_.bound_memory_by(body_->guest());
    needs_entropy_ = true;
    return {};
  }

  wasi::World wasi_world() {
    const auto must_stop = [this] { return this->must_stop().has_value(); };
    wasi::World made = context_.wasi_world(must_stop);
    made.device = [this](std::string_view request) { return body_->answer(request); };
    made.sleeping = sleeping();
    made.sleep = [this, must_stop](uint64_t ns) { return options_.sources->sleep_ns(ns, must_stop); };
    return made;
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
  // The key of the seeded streams, if the embedder has given one.
  [[nodiscard]] std::optional<RandomStream::Key> key_given() const {
    return options_.sources != nullptr ? options_.sources->key : std::nullopt;
  }

  Report exec(const Turn& turn);
  Report go_on(std::optional<uint64_t> pause_at_fuel);
  Report resume(std::vector<FunctionAnswer> answers);
  Status abandon();
  void cancel_by(const std::atomic<bool>* cancel) { context_.cancel_by(cancel); }
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
    constexpr uint64_t kForms = 4;  // as read, and as JSON in a growing string
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
  using Clock = std::chrono::steady_clock;
  using Json = nlohmann::json;

  // A state to return to.
  struct Checkpoint {
    Image image;
    std::unique_ptr<wasi::System> system;
    std::shared_ptr<const Waiting> waiting;
    Zone time_zone;
    std::string functions;
  };
  // A turn that made requests only to its session and to functions of the embedder: from the same state, with the
  // same answers, it gives the same result.
  struct Step {
    std::string request;
    std::vector<std::string> answers;
    uint64_t fuel;
  };
  // Data that the bytes of a session borrow while they are written.
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
  // Changes that the owner made to files cannot be repeated as a step.
  void forget_origin() {
    if (!body_->is_paused()) origin_.reset();
  }
  Result<Image> capture();
  // The instance equals this image until it runs; null: it has not been captured yet.
  void stands_as(Image image) {
    as_it_stands_ = std::move(image);
    changes_as_it_stands_.reset();
  }
  Result<std::span<const uint8_t>> changes_of(const Image& image, KeptBytes& bytes);
  Result<std::unique_ptr<wasi::System>> fork_system(const wasi::System& system, uint64_t number,
                                                    const policy::Policy& policy, wasi::World world) const;
  // The starting position of a fork's randomness and clock.
  struct ForkPlace {
    uint64_t number;  // unique among everything made from a template
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
  [[nodiscard]] host::World& world() const { return context_.world(); }
  std::optional<Outcome> must_stop() const;
  // Whether the program may request input that the options read.
  [[nodiscard]] bool has_input() const { return (turn_input_ || options_.read_input) && !input_is_over_; }
  void forget_result();
  void end_input_of_turn();
  [[nodiscard]] std::function<bool()> input_giver();
  const std::string& given_functions();
  [[nodiscard]] Status check(const Turn& turn) const;
  [[nodiscard]] Status check_encoding(const Turn& turn) const;
  void begin_turn(const Turn& turn);
  void begin_part();
  // What remains of the output limit for the turn: its parts share one account.
  [[nodiscard]] uint64_t output_left() const {
    const uint64_t limit = options_.policy.limits.output_bytes;
    return limit - std::min(limit, output_of_turn_bytes_);
  }
  // Runs a part of a turn, to its end or a pause: `run` gets the part's fuel, and returns whether the turn returned.
  Report run_part(const std::function<bool(uint64_t fuel)>& run);
  // Appends to the hint what state the session is in, for a caller that can run another turn.
  [[nodiscard]] std::string and_goes_on(std::string hint) const {
    if (options_.is_single_turn) return hint;
    return (hint.empty() ? "" : std::move(hint) + " ") + "The session is as it was before this turn.";
  }
  // The result is kept until the turn has ended, and the report copies its texts twice: as a value and as the
  // result.
  static uint64_t size_of_result(const JsonSize& size) {
    constexpr uint64_t kCopies = 2;
    return size.kept_bytes() + kCopies * size.string_bytes;
  }
  void report_result(Report& report);
  void report_language_error(const Json& error, Report& report);
  // In the program's own tree.
  [[nodiscard]] bool is_missing_directory(const std::string& path) {
    const auto there = wasi::act_on_files(body_->system(), {.path = path});
    return !there && there.error().code == host::Errno::kNotFound;
  }
  [[nodiscard]] bool has_exited() const;
  void report_stop(Report& report);
  [[nodiscard]] ReportError error_of_stop(Outcome outcome) const;
  static void report_lost_steps(const Error& error, Report& report);
  void report_places(ReportError& error);
  [[nodiscard]] std::string memory_limit() const;
  void report_rest(Report& report);
  [[nodiscard]] ReportPlace place(const engine::CodePlace& at) const;

  std::shared_ptr<const Template> template_;
  RunOptions options_;
  RunContext context_;
  std::unique_ptr<Body> body_;
  RandomStream fresh_;  // numbers that turns got from it are never given out again, however the turns end

  std::optional<KeptCalls> calls_;  // that the turn waits for, or that were answered while it was paused
  bool completes_ = false;          // the turn only completes a name
  std::optional<Turn> turn_;        // until the program has requested it
  std::function<void(std::string_view)> on_stdout_, on_stderr_;  // passed with the turn
  // The state to return to, while a turn runs or is paused: the turn started where steps_ lead from there. Between
  // two turns it is kept for the next one, or absent.
  std::optional<Checkpoint> origin_;
  std::vector<Step> steps_;
  uint64_t steps_fuel_ = 0;
  size_t steps_bytes_ = 0;
  std::vector<std::string>
      answers_;  // answers of the embedder's functions to the turn, unless it makes other requests
  size_t answers_bytes_ = 0;
  const Step* repeats_ = nullptr;  // the step being repeated, whose output is discarded
  size_t repeated_answers_ = 0;
  std::string request_;  // of the turn
  bool asks_others_ =
      false;           // the turn has requested something that could have another answer, or was paused
  bool runs_ = false;  // a part of a turn is running
  bool needs_entropy_ = true;  // the memory was copied since the program last got fresh entropy
  bool is_changed_ = false;    // since it started from the template
  Zone time_zone_;             // as given to the program
  std::string functions_;      // the digest of the functions given to the program; "" for none
  std::optional<std::string> given_functions_;  // the digest of the options' functions, once computed
  // Between two turns: the captured image, and its differences from the template, so that the next fork or step back
  // need not compute them again. Valid until the instance runs.
  Image as_it_stands_;
  std::optional<std::vector<uint8_t>> changes_as_it_stands_;
  uint64_t turns_ = 0;
  uint64_t output_of_turn_bytes_ = 0;  // output of the parts of the turn so far
  std::optional<Json> result_;
  std::string input_ahead_;     // has been read, and belongs to the next block
  uint64_t input_bytes_ = 0;    // from the options' input, given to the program
  bool input_is_over_ = false;  // the end was reached
  // For the turn alone; the three members above then belong to it, and their previous values are in before_input_.
  std::function<InputPiece(std::chrono::milliseconds)> turn_input_;
  struct {
    std::string ahead;
    uint64_t bytes = 0;
    bool is_over = false;
  } before_input_;
  bool waits_for_input_ = false;
  std::string input_problem_;  // why reading failed; ends the run
  uint64_t result_bytes_ = 0;  // host memory for the result, and for the report's copies of it
};

}  // namespace membrane::sandbox
