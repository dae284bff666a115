#include "linux/platform/trap/bell.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bit>
#include <climits>
#include <ctime>

namespace membrane::linux {
namespace {

template <typename T>
std::atomic_ref<T> shared(T& word) {
  return std::atomic_ref<T>(word);
}

}  // namespace

void wake_futex(uint32_t& word) { syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }

Bell::Bell() : file_(make_memory("membrane-bell", TRAP_PAGE)) {
  if (!file_) return;
  void* const page = mmap(nullptr, TRAP_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file_.number(), 0);
  if (page != MAP_FAILED) page_ = static_cast<TrapBell*>(page);
}

Bell::~Bell() {
  if (page_ != nullptr) munmap(page_, TRAP_PAGE);
}

int Bell::next_hint() {
  // A guest that sets hints endlessly must not keep the caller here.
  constexpr int kMostWords = 2 * kTrapMostThreads / 64;
  for (int looked = 0; bits_ == 0; ++looked) {
    if (looked == kMostWords) return -1;
    if (words_ == 0) words_ = shared(page_->hinted_words).exchange(0);
    if (words_ == 0) return -1;
    word_ = std::countr_zero(words_);
    words_ &= words_ - 1;
    bits_ = shared(page_->hints[word_]).exchange(0);
  }
  const int bit = std::countr_zero(bits_);
  bits_ &= bits_ - 1;
  return word_ * 64 + bit;
}

void Bell::wake() {
  is_woken_.store(true);
  shared(page_->rings).fetch_add(1);
  wake_futex(page_->rings);
}

uint32_t Bell::rings() const { return shared(page_->rings).load(); }

void Bell::begin_sleep_for_one() { shared(page_->is_kernel_asleep).store(1); }

bool Bell::begin_sleep() {
  begin_sleep_for_one();
  if (shared(page_->hinted_words).load() == 0 && bits_ == 0 && words_ == 0 && !is_woken_.load()) return true;
  end_sleep();
  return false;
}

void Bell::end_sleep() { shared(page_->is_kernel_asleep).store(0); }

void Bell::sleep(uint32_t rings, std::chrono::nanoseconds most) {
  const timespec time = {static_cast<time_t>(most.count() / 1'000'000'000), most.count() % 1'000'000'000};
  const bool is_bounded = most != std::chrono::nanoseconds::max();
  syscall(SYS_futex, &page_->rings, FUTEX_WAIT, rings, is_bounded ? &time : nullptr, nullptr, 0);
  end_sleep();
}

}  // namespace membrane::linux
