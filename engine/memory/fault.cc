#include "engine/memory/fault.h"

#include <csignal>
#include <mutex>

#include "base/sanitized_testing.h"

namespace membrane::engine {

namespace {

thread_local GuestCode* running = nullptr;
struct sigaction previous[2];  // of SIGSEGV and SIGBUS

void forward(int number, siginfo_t* info, void* context) {
  const struct sigaction& before = previous[number == SIGBUS];
  if (before.sa_flags & SA_SIGINFO) {
    before.sa_sigaction(number, info, context);
  } else if (before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN) {
    signal(number, SIG_DFL);  // the access is repeated and kills the process, as it would have
  } else {
    before.sa_handler(number);
  }
}

void handle(int number, siginfo_t* info, void* context) {
  if (running == nullptr || !running->take_fault(info->si_addr, context)) forward(number, info, context);
}

// A sanitizer that returns from a signal stack looks for the usual stack in /proc, which a worker does not have.
constexpr int kOnItsOwnStack = kIsSanitized ? 0 : SA_ONSTACK;

}  // namespace

void install_fault_handler() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action{};
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO | SA_NODEFER | kOnItsOwnStack;
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, &previous[0]);
    sigaction(SIGBUS, &action, &previous[1]);
  });
}

GuestCode::GuestCode() : outer_(running) { running = this; }
GuestCode::~GuestCode() { running = outer_; }

}  // namespace membrane::engine
