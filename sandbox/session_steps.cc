// Forks of a session, and steps back: a turn that failed is undone by taking a copy of the session's state some
// turns ago, and repeating the turns since then.

#include "base/terminal.h"
#include "engine/memory/used_pages.h"
#include "sandbox/session_impl.h"

namespace membrane::sandbox {
namespace {

constexpr uint64_t kCompletionFuel = 200'000'000;
constexpr uint64_t kCompletionWallMs = 2000;
constexpr size_t kMostNames = 200;  // per completion
// Turns are repeated for a step back as long as that costs little more than copying what the session has changed,
// which repeating saves in each turn.
constexpr uint64_t kStepsFuel = 4'000'000;
constexpr uint64_t kStepsFuelPerByte = 2;  // of that copy

}  // namespace

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

// Makes sure that there is a state to return to. Repeating turns is faster than copying as long as little has been
// done since the last copy.
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

// Takes a copy of another session's origin.
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

// Whether the turn that has just ended depended only on the session and its request.
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
  return fail(ErrorCode::kInternal, "repeated turns did not give the same result", "");
}

// Brings the session from its origin to where the steps lead. False when the result differs.
bool Session::Impl::repeat_steps() {
  const auto is_the_same = [this](const Step& step) {
    output_ = Conversation();
    output_.output_limit_bytes = UINT64_MAX;
    forget_result();
    repeats_ = &step;
    repeated_answers_ = 0;
    body_->start_run(language_execution_limits(options_.policy.limits), options_.policy.limits.fuel);
    const bool returned = template_->interpreter().turn(*body_, step.request);
    repeats_ = nullptr;
    return returned && body_->fuel_used() == step.fuel && repeated_answers_ == step.answers.size() &&
           !body_->instance().limit_was_hit();
  };
  for (const Step& step : steps_) {
    is_changed_ = true;
    stands_as(nullptr);
    time_zone_ = options_.time_zone;  // given to it with its request, and the functions
    functions_ = add_description(functions_, given_functions());
    if (!is_the_same(step)) return false;
  }
  forget_result();
  return true;
}

// Options for a session beside this one, whose turns have no listeners and are not charged to the owner.
RunOptions Session::Impl::unheard_options() const {
  RunOptions options = options_;
  options.on_stdout = options.on_stderr = nullptr;
  options.on_file = nullptr;
  options.budget = nullptr;
  options.flows = nullptr;
  return options;
}

// So that the origin alone is the state in which the paused turn started.
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

// Whether it consists of the characters of a name, and begins with the last word of the code: the program could
// return anything, and a terminal shows it.
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
  if (std::exchange(options.sources, nullptr) != nullptr) {  // without requests to the embedder
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

// A position of its own in the seed's stream, far from any that others can reach; the clock does not go back.
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

// The state of the paused turn that the child needs besides its image.
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

}  // namespace membrane::sandbox
