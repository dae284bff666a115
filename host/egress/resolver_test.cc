#include "host/egress/resolver.h"

#include <gtest/gtest.h>

namespace membrane::host {
namespace {

TEST(SystemResolver, FindsTheLoopbackAndSaysWhenThereIsNone) {
  SystemResolver resolver;
  const auto found = resolver.resolve("localhost", 10'000);
  ASSERT_TRUE(found) << found.error().reason;
  for (const policy::Address& address : *found) EXPECT_EQ(policy::special_kind(address), "loopback");
  const auto none = resolver.resolve("no.such.host.invalid", 10'000);
  ASSERT_FALSE(none);
  EXPECT_TRUE(none.error().code == Errno::kConnection || none.error().code == Errno::kTimedOut);
}

}  // namespace
}  // namespace membrane::host
