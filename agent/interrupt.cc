#include "agent/interrupt.h"

namespace membrane::agent {

namespace {

std::atomic<bool> g_flag{false};
std::atomic<int> g_unheard{0};  // signals since the flag was last cleared
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free,
              "used in a signal handler");

constexpr int kPatience = 3;

void on_signal(int signal) {
  if (!g_flag.exchange(true)) g_unheard = 0;
  if (++g_unheard < kPatience) return;
  ::signal(signal, SIG_DFL);
  raise(signal);
}

}  // namespace

Interrupt::Interrupt() {
  g_flag = false;
  struct sigaction action{};
  action.sa_handler = on_signal;  // without SA_RESTART: a waiting read returns
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &before_);
}

Interrupt::~Interrupt() { sigaction(SIGINT, &before_, nullptr); }

std::atomic<bool>& Interrupt::flag() { return g_flag; }

}  // namespace membrane::agent
