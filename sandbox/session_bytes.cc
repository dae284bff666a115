// Converts a session to bytes, and back (session_state.h).

#include "engine/freeze/image_changes.h"
#include "engine/memory/used_pages.h"
#include "sandbox/session_impl.h"

namespace membrane::sandbox {

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

// What is written alike for a session and for its forks.
Result<SessionState> Session::Impl::begin_to_keep(const wasi::System& system, KeptBytes& bytes) {
  if (world_->has_store_in_memory())
    return fail(ErrorCode::kUnsupported,
                "the session has used a key-value store in memory, which is not saved",
                "Grant one in a file (--allow kv:PATH), which is reopened.");
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
    return fail(ErrorCode::kUnsupported, "a turn of the session is paused", "Resume it first.");
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
    return damaged_session("its program cannot wait in this state");
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

// Frames that are not the template's may be forged.
Status Session::Impl::check_waiting(const KeptPlace& place, const std::shared_ptr<const Waiting>& waiting) {
  if (place.waits != KeptPlace::Waits::kInItsFrames) return {};
  return body_->check(*waiting, language_execution_limits(options_.policy.limits));
}

Status Session::Impl::restore(const SessionState& state) {
  MEMBRANE_ASSIGN(const engine::ImageIdentity identity, template_->identity());
  if (state.template_identity != identity)
    return fail(
        ErrorCode::kInvalidInput,
        "the session is of another template (" + state.template_name +
            "), or of another version of that template",
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

// A saved session has drawn from its streams: a different seed gives streams derived from their state, so that no
// number repeats. Returns a position in the seed's own stream that is far from any that others can reach.
uint64_t Session::Impl::begin_streams_anew(const RandomStream::Key& key) {
  body_->system().reseed(key);
  fresh_ = RandomStream(host::key_of_both(fresh_, key));
  needs_entropy_ = true;
  return RandomStream(host::key_of_fork(fresh_.key(), kOfPlace)).next_u64() >> 1;
}

Status Session::Impl::restore_pause(const KeptPause& pause) {
  if (pause.result) {
    MEMBRANE_ASSIGN(Json result, read_json(*pause.result, "the result of its turn"));
    if (!result.is_object()) return damaged_session("the result of its turn is not an object");
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

}  // namespace membrane::sandbox
