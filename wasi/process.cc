// Arguments, environment, randomness, exit; and the socket functions, which always fail.
#include "wasi/state.h"

namespace membrane::wasi {
namespace {

// Writes pointers to the texts at `list`, and the texts at `bytes`, each followed by a NUL.
Done give_texts(Call& call, const std::vector<std::string>& texts) {
  uint32_t list = call.u32(0);
  uint32_t at = call.u32(1);
  for (const std::string& text : texts) {
    const auto size = static_cast<uint32_t>(text.size() + 1);
    MEMBRANE_TRY(call.memory.write(list, at));
    MEMBRANE_ASSIGN(const auto to, call.memory.bytes(at, size));
    std::memcpy(to.data(), text.c_str(), size);
    call.given_bytes += size;
    list += 4;
    at += size;
  }
  return {};
}

Done give_sizes(Call& call, const std::vector<std::string>& texts) {
  uint32_t bytes = 0;
  for (const std::string& text : texts) bytes += static_cast<uint32_t>(text.size() + 1);
  MEMBRANE_TRY(call.memory.write(call.u32(0), static_cast<uint32_t>(texts.size())));
  return call.memory.write(call.u32(1), bytes);
}

// There are no sockets, so no descriptor is one.
Done no_socket(const Call& call) {
  MEMBRANE_TRY(call.descriptor(0));
  return membrane::wasi::fail(Errno::kNotsock);
}

constexpr std::string_view kSignals[] = {"none", "hup",    "int",  "quit",  "ill",  "trap", "abrt", "bus",
                                         "fpe",  "kill",   "usr1", "segv",  "usr2", "pipe", "alrm", "term",
                                         "chld", "cont",   "stop", "tstp",  "ttin", "ttou", "urg",  "xcpu",
                                         "xfsz", "vtalrm", "prof", "winch", "poll", "pwr",  "sys"};

}  // namespace

namespace functions_of {

Done args_get(Call& call) { return give_texts(call, call.state.arguments); }
Done args_sizes_get(Call& call) { return give_sizes(call, call.state.arguments); }
Done environ_get(Call& call) { return give_texts(call, call.state.environment); }
Done environ_sizes_get(Call& call) { return give_sizes(call, call.state.environment); }

Done proc_exit(Call& call) {
  call.state.exit_code = call.u32(0);
  call.outcome.end = End::kExit;
  return {};
}

// As by default in POSIX: most signals end the program, a few are ignored.
Done proc_raise(Call& call) {
  const uint32_t number = call.u32(0);
  if (number >= std::size(kSignals)) return fail(Errno::kInval);
  const std::string_view name = kSignals[number];
  if (name == "none" || name == "chld" || name == "cont" || name == "urg" || name == "winch") return {};
  if (name == "stop" || name == "tstp" || name == "ttin" || name == "ttou") return fail(Errno::kNotsup);
  call.outcome = {End::kTrap, "the program raised the signal " + std::string(name)};
  return {};
}

Done sched_yield(Call&) { return {}; }

Done random_get(Call& call) {
  MEMBRANE_ASSIGN(const auto to, call.memory.bytes(call.u32(0), call.u32(1)));
  return fill_random(call, to);
}

Done sock_accept(Call& call) { return no_socket(call); }
Done sock_recv(Call& call) { return no_socket(call); }
Done sock_send(Call& call) { return no_socket(call); }
Done sock_shutdown(Call& call) { return no_socket(call); }

}  // namespace functions_of

// A request to the broker returns at most kMaxBytes.
Done fill_random(Call& call, std::span<uint8_t> to) {
  if (!call.state.grants.random.real) {
    call.state.random.fill(to);
    return {};
  }
  while (!to.empty()) {
    if (call.state.world.broker == nullptr) return fail(Errno::kIo);
    const size_t count = std::min<size_t>(to.size(), host::RandomSource::kMaxBytes);
    call.guest.owe(kWorldFuel);
    const auto bytes = call.state.world.broker->random_bytes(static_cast<uint32_t>(count));
    if (!bytes || bytes->size() != count) return fail(Errno::kIo);
    std::memcpy(to.data(), bytes->data(), count);
    to = to.subspan(count);
  }
  return {};
}

}  // namespace membrane::wasi
