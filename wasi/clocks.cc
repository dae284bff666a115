// Clocks and poll_oneoff.
#include <algorithm>

#include "wasi/state.h"

namespace membrane::wasi {
namespace {

bool is_clock(uint32_t id) { return id <= static_cast<uint32_t>(ClockId::kThreadCpu); }
bool is_realtime(uint32_t id) { return id == static_cast<uint32_t>(ClockId::kRealtime); }

// Where the clock `id` starts. The monotonic one does not start at 0, which libraries take for an unset clock.
uint64_t start_of(const State& state, uint32_t id) {
  constexpr uint64_t kMonotonicStartNs = 1'000'000'000;
  if (is_realtime(id)) return state.start_ns();
  return id == static_cast<uint32_t>(ClockId::kMonotonic) ? kMonotonicStartNs : 0;
}

// The reading of the clock `id`, without advancing it.
uint64_t shown_ns(const State& state, uint32_t id, uint64_t passed_ns) {
  return start_of(state, id) + passed_ns;
}

Answer<uint64_t> read_real(Call& call, uint32_t id) {
  State& state = call.state;
  if (state.world.broker == nullptr) return fail(Errno::kIo);
  call.guest.owe(kWorldFuel);
  const auto now_ns = state.read_real_clock();
  if (!now_ns) return fail(Errno::kIo);
  return is_realtime(id) ? *now_ns : start_of(state, id) + state.real_monotonic_ns;
}

Answer<uint64_t> read_clock(Call& call, uint32_t id) {
  if (call.state.grants.time.real) return read_real(call, id);
  return shown_ns(call.state, id, call.state.clock.read());
}

// -- poll_oneoff --------------------------------------------------------------------------

enum class Kind : uint8_t { kClock = 0, kFdRead = 1, kFdWrite = 2 };

struct Subscription {
  uint64_t userdata = 0;
  Kind kind{};
  uint32_t id = 0;  // the clock, or the descriptor
  uint64_t timeout_ns = 0;
  bool is_absolute = false;
};

struct Event {
  uint64_t userdata = 0;
  Errno error = Errno::kSuccess;
  Kind kind{};
  uint64_t bytes = 0;
  bool hangup = false;
};

uint32_t bytes_of_subscription(Abi abi) {
  return abi == Abi::kUnstable ? kUnstableSubscriptionBytes : kSubscriptionBytes;
}

Answer<Subscription> read_subscription(const Memory& memory, Abi abi, uint64_t at) {
  if (at > UINT32_MAX) return fail(Errno::kFault);
  const auto bytes = memory.bytes(static_cast<uint32_t>(at), bytes_of_subscription(abi));
  if (!bytes) return fail(bytes.error());
  const auto number = [&]<typename T>(size_t offset, T value) {
    std::memcpy(&value, bytes->data() + offset, sizeof value);
    return value;
  };
  const auto tag = number(8, uint8_t{});
  if (tag > static_cast<uint8_t>(Kind::kFdWrite)) return fail(Errno::kInval);
  // The older subscription starts with an unused identifier.
  const size_t clock = abi == Abi::kUnstable ? 24 : 16;
  const bool is_clock = tag == static_cast<uint8_t>(Kind::kClock);
  Subscription found{number(0, uint64_t{}), static_cast<Kind>(tag),
                     number(is_clock ? clock : 16, uint32_t{})};
  if (!is_clock) return found;
  found.timeout_ns = number(clock + 8, uint64_t{});
  const auto flags = number(clock + 24, uint16_t{});
  if (flags > 1) return fail(Errno::kInval);
  found.is_absolute = flags == 1;
  return found;
}

Answer<std::vector<Subscription>> read_subscriptions(const Call& call) {
  const uint32_t at = call.u32(0), count = call.u32(2);
  if (count == 0 || count > kMaxSubscriptions) return fail(Errno::kInval);
  std::vector<Subscription> found;
  for (uint32_t i = 0; i < count; ++i) {
    const auto one =
        read_subscription(call.memory, call.abi, at + uint64_t{i} * bytes_of_subscription(call.abi));
    if (!one) return fail(one.error());
    found.push_back(*one);
  }
  return found;
}

// Whether the descriptor's event is ready: always, except for an empty stdin that waits.
std::optional<Event> ready(const State& state, const Subscription& asked) {
  Event event{.userdata = asked.userdata, .kind = asked.kind};
  const auto& open = state.descriptors.all();
  const auto found = open.find(asked.id);
  const Rights needed = asked.kind == Kind::kFdRead ? right::kFdRead : right::kFdWrite;
  if (found == open.end()) {
    event.error = Errno::kBadf;
  } else if ((found->second.rights & (needed | right::kPollFdReadwrite)) !=
             (needed | right::kPollFdReadwrite)) {
    event.error = Errno::kNotcapable;
  } else if (const auto* standard = std::get_if<Standard>(&found->second.is);
             standard != nullptr && *standard == Standard::kIn) {
    event.bytes = state.stdin_text.size() - state.stdin_at;
    event.hangup = event.bytes == 0;
    if (event.bytes == 0 && state.stdin_waits) return std::nullopt;
  } else if (const auto* file = std::get_if<OpenFile>(&found->second.is)) {
    const uint64_t size = state.files->stat(file->inode).size;
    if (asked.kind == Kind::kFdRead) event.bytes = size - std::min(size, found->second.offset);
  }
  return event;
}

std::vector<Event> ready_now(const State& state, std::span<const Subscription> asked) {
  std::vector<Event> events;
  for (const Subscription& one : asked)
    if (one.kind != Kind::kClock) {
      if (auto event = ready(state, one)) events.push_back(*event);
    } else if (!is_clock(one.id)) {
      events.push_back({.userdata = one.userdata, .error = Errno::kInval, .kind = one.kind});
    }
  return events;
}

// Time until the clock of the subscription reaches its time. For the virtual clock this needs no reading.
Answer<uint64_t> wait_of(Call& call, const Subscription& one) {
  if (!one.is_absolute) return one.timeout_ns;
  uint64_t now = shown_ns(call.state, one.id, call.state.clock.passed_ns());
  if (call.state.grants.time.real) {
    const auto read = read_real(call, one.id);
    if (!read) return fail(read.error());
    now = *read;
  }
  return one.timeout_ns - std::min(one.timeout_ns, now);
}

}  // namespace

Done State::let_pass(uint64_t ns) {
  using enum World::Sleeping;
  const bool is_real = grants.time.real;
  const World::Sleeping how = world.sleeping != kByClock ? world.sleeping : is_real ? kWaits : kAtOnce;
  if (how == kWaits && ns > 0) {
    if (!world.wait) return fail(Errno::kNotsup);
    if (!world.wait(ns)) return fail(Errno::kIntr);
  }
  if (how == kAsks && ns > 0 && (!world.sleep || !world.sleep(ns))) return fail(Errno::kIo);
  if (!is_real) clock.sleep(ns);
  else if (how == kAtOnce) skipped_ns += std::min(ns, kMostSkippedNs - skipped_ns);
  return {};
}

bool System::sleep(uint64_t ns) { return state_->let_pass(ns).has_value(); }

namespace {

// Lets the shortest wait pass; returns the events of the clocks that have reached their times.
Answer<std::vector<Event>> wait_for_clocks(Call& call, std::span<const Subscription> asked) {
  std::vector<uint64_t> waits;
  uint64_t shortest = UINT64_MAX;
  for (const Subscription& one : asked) {
    const bool counts = one.kind == Kind::kClock && is_clock(one.id);
    const auto wait = counts ? wait_of(call, one) : Answer<uint64_t>(UINT64_MAX);
    if (!wait) return fail(wait.error());
    waits.push_back(*wait);
    shortest = std::min(shortest, *wait);
  }
  MEMBRANE_TRY(call.state.let_pass(shortest));
  std::vector<Event> events;
  for (size_t i = 0; i < asked.size(); ++i)
    if (asked[i].kind == Kind::kClock && is_clock(asked[i].id) && waits[i] <= shortest)
      events.push_back({.userdata = asked[i].userdata, .kind = Kind::kClock});
  return events;
}

Done write_event(const Call& call, uint32_t at, const Event& event) {
  const auto to = call.memory.bytes(at, kEventBytes);
  if (!to) return fail(to.error());
  StructWriter out(*to);
  out.put(0, event.userdata);
  out.put(8, event.error);
  out.put(10, event.kind);
  out.put(16, event.bytes);
  out.put(24, static_cast<uint16_t>(event.hangup ? 1 : 0));
  return {};
}

// Nothing is ready, and no clock will become ready before stdin does.
bool only_stdin_is_left(const Call& call) {
  const State& state = call.state;
  const auto asked = read_subscriptions(call);
  if (!asked || !ready_now(state, *asked).empty()) return false;
  const auto is_clock_event = [](const Subscription& one) { return one.kind == Kind::kClock; };
  if (std::ranges::all_of(*asked, is_clock_event)) return false;
  const bool clock_is_first = !state.world.stdin_comes_first || state.grants.time.real;
  return !clock_is_first || std::ranges::none_of(*asked, is_clock_event);
}

bool reads_waiting_stdin(const Call& call) {
  if (!call.state.stdin_waits || call.state.stdin_at < call.state.stdin_text.size()) return false;
  const auto open = call.descriptor(0, right::kFdRead);
  const auto* standard = open ? std::get_if<Standard>(&(*open)->is) : nullptr;
  if (standard == nullptr || *standard != Standard::kIn) return false;
  if (((*open)->flags & fdflag::kNonblock) != 0 && !call.state.world.stdin_comes_first) return false;
  const auto pieces = call.memory.pieces(call.u32(1), call.u32(2));
  return pieces && total_bytes(*pieces) > 0 && call.memory.bytes(call.u32(3), 4);
}

}  // namespace

bool would_wait(FunctionId id, const Call& call) {
  if (id == FunctionId::fd_read) return reads_waiting_stdin(call);
  return id == FunctionId::poll_oneoff && call.state.stdin_waits && only_stdin_is_left(call);
}

namespace functions_of {

Done clock_res_get(Call& call) {
  if (!is_clock(call.u32(0))) return fail(Errno::kInval);
  return call.memory.write(call.u32(1), VirtualClock::kReadingNs);
}

Done clock_time_get(Call& call) {
  if (!is_clock(call.u32(0))) return fail(Errno::kInval);
  if (const auto to = call.memory.bytes(call.u32(2), 8); !to) return fail(to.error());
  const auto now = read_clock(call, call.u32(0));
  if (!now) return fail(now.error());
  return call.memory.write(call.u32(2), *now);
}

Done poll_oneoff(Call& call) {
  const uint32_t count = call.u32(2);
  const auto asked = read_subscriptions(call);
  if (!asked) return fail(asked.error());
  // Checks the whole output range before anything happens.
  if (const auto to = call.memory.bytes(call.u32(1), count * kEventBytes); !to) return fail(to.error());
  if (const auto to = call.memory.bytes(call.u32(3), 4); !to) return fail(to.error());
  call.given_bytes += count * uint64_t{bytes_of_subscription(call.abi)};

  std::vector<Event> events = ready_now(call.state, *asked);
  if (events.empty()) {
    auto waited = wait_for_clocks(call, *asked);
    if (!waited) return fail(waited.error());
    events = std::move(*waited);
  }
  for (size_t i = 0; i < events.size(); ++i)
    MEMBRANE_TRY(write_event(call, call.u32(1) + static_cast<uint32_t>(i) * kEventBytes, events[i]));
  return call.memory.write(call.u32(3), static_cast<uint32_t>(events.size()));
}

}  // namespace functions_of
}  // namespace membrane::wasi
