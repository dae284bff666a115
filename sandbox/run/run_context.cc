#include "sandbox/run/run_context.h"

#include <algorithm>
#include <utility>

#include "sandbox/run/stops.h"
#include "sandbox/run/wasi_calls.h"

namespace membrane::sandbox {

using Clock = std::chrono::steady_clock;

std::unique_ptr<host::World> world_of(const RunOptions& options,
                                      const std::shared_ptr<policy::Budget>& budget) {
  if (options.make_world) return options.make_world();
  return host::make_world({.policy = &options.policy,
                           .budget = budget,
                           .is_shared = options.budget != nullptr,
                           .model = options.model,
                           .person = options.person,
                           .replay = options.replay,
                           .record = options.record,
                           .secrets = options.secrets,
                           .flows = options.flows,
                           .approve = options.approve,
                           .watch = options.egress_watch,
                           .sources = options.sources.get()});
}

InputPiece read_input(const std::function<InputPiece(std::chrono::milliseconds)>& source, host::World& world,
                      std::chrono::milliseconds patience) {
  InputPiece piece = source(patience);
  if (!piece.bytes.empty()) world.note_input();
  return piece;
}

RunContext::RunContext(const RunOptions& options)
    : options_(options),
      budget_(options.budget ? options.budget : std::make_shared<policy::Budget>(options.policy.limits)),
      world_(world_of(options, budget_)),
      cancel_(options.cancel) {}

void RunContext::begin(uint64_t output_limit_bytes) {
  const auto wall_end = Clock::now() + std::chrono::milliseconds(options_.policy.limits.wall_ms);
  if (!options_.budget) budget_->set_deadline(wall_end);
  deadline_ = std::min(wall_end, budget_->deadline());
  world_->bound(deadline_, cancel_);
  output_ = Conversation();
  output_.output_limit_bytes = output_limit_bytes;
  output_.on_stdout = options_.on_stdout;
  output_.on_stderr = options_.on_stderr;
  output_.hears_bytes = options_.hears_bytes;
}

std::optional<Outcome> RunContext::stop_requested() const {
  return sandbox::stop_requested(cancel_, deadline_);
}

std::optional<Outcome> RunContext::must_stop() const {
  if (options_.on_poll) options_.on_poll();
  return stop_requested();
}

uint64_t RunContext::take_fuel(uint64_t used_before) {
  const uint64_t limit = options_.policy.limits.fuel;
  return budget_->take_up_to(policy::Resource::kFuel, limit - std::min(limit, used_before));
}

wasi::World RunContext::wasi_world(std::function<bool()> must_stop) {
  wasi::World world;
  world.broker = &world_->broker();
  world.write = [this](host::Stream stream, std::string_view bytes, std::string_view text) {
    return output_.write(stream, bytes, text);
  };
  world.wait = [must_stop = std::move(must_stop)](uint64_t ns) { return wait_unless(must_stop, ns); };
  return world;
}

void RunContext::bound_memory_by(GuestInstance& guest) {
  world_->bound_memory([&guest] { return guest.host_memory().left_for_call(); });
}

}  // namespace membrane::sandbox
