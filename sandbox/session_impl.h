// A session in this process: what it holds, and what stands between its program and the outside. session.cc runs its turns,
// session_report.cc says what a turn came to, session_steps.cc forks it and takes turns back, session_bytes.cc keeps it.
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
#include "host/random_fork.h"
#include "host/world.h"
#include "sandbox/body.h"
#include "sandbox/file_requests.h"
#include "sandbox/guest_functions.h"
#include "sandbox/language_limits.h"
#include "sandbox/session.h"
#include "sandbox/session_state.h"
#include "sandbox/telling.h"
#include "sandbox/wasi_calls.h"

namespace membrane::sandbox {

// Numbers that tell apart what is forked from one stream of randomness: forks of the session have their own, below.
constexpr uint64_t kOfSteps = 1ull << 63;     // a step back, and the number of its turn
constexpr uint64_t kOfFresh = UINT64_MAX;     // the stream of fresh entropy
constexpr uint64_t kOfPlace = kOfFresh - 1;   // where the seed's own stream begins anew
constexpr uint64_t kOfPrograms = 1ull << 62;  // a program that a turn starts, and the number of the turn
constexpr uint64_t kOfCompletions = kOfPrograms - 2;

// Of the requests and answers of turns that are run again for a step back.
constexpr size_t kStepsBytes = 1u << 20;

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
  using Clock = std::chrono::steady_clock;
  using Json = nlohmann::json;

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
  void forget_result();
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
    return (hint.empty() ? "" : std::move(hint) + " ") + "The session stands as it did before this turn.";
  }
  // The result is kept until the turn is over, and the report copies its texts twice: as a value and as the result.
  static uint64_t size_of_result(const JsonSize& size) {
    constexpr uint64_t kCopies = 2;
    return size.kept_bytes() + kCopies * size.string_bytes;
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

}  // namespace membrane::sandbox
