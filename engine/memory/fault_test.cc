#include "engine/memory/fault.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <csetjmp>

#include "engine/memory/region_pool.h"

namespace membrane::engine {
namespace {

// A page that nobody can touch.
struct ForbiddenPage {
  uint8_t* const at = static_cast<uint8_t*>(
      mmap(nullptr, system_page_bytes(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ~ForbiddenPage() { munmap(at, system_page_bytes()); }
};

class Jumping final : public GuestCode {
 public:
  bool take_fault(const void* address, void*) override {
    taken = address;
    siglongjmp(jump, 1);
  }

  sigjmp_buf jump;
  const void* volatile taken = nullptr;
};

// Reads what it must not, as guest code that `code` stands for.
void touch(const uint8_t* at, Jumping& code) {
  if (sigsetjmp(code.jump, 1) == 0) static_cast<void>(*const_cast<const volatile uint8_t*>(at));
}

TEST(Fault, IsTakenByTheInnermostGuestCode) {
  install_fault_handler();
  const ForbiddenPage page;
  Jumping outer;
  {
    Jumping inner;
    touch(page.at + 8, inner);
    EXPECT_EQ(inner.taken, page.at + 8);
    EXPECT_EQ(outer.taken, nullptr);
  }
  touch(page.at + 16, outer);
  EXPECT_EQ(outer.taken, page.at + 16);
}

}  // namespace
}  // namespace membrane::engine
