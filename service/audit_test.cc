#include "service/audit.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "service/simulated_disk_testing.h"

namespace membrane::service {
namespace {

// The number of consecutive lines of the log that form a chain.
struct Followed {
  uint64_t count = 0;
  bool is_whole = true;
};
Followed follow(const std::string& log) {
  AuditChain chain;
  for (size_t at = 0; at < log.size();) {
    const size_t end = log.find('\n', at);
    if (end == std::string::npos || !chain.follow(std::string_view(log).substr(at, end - at)))
      return {chain.count(), false};
    at = end + 1;
  }
  return {chain.count(), true};
}

std::string log_of(SimulatedDisk& disk) { return disk.read(kAuditFile, kMostFileBytes).value_or(""); }

TEST(Audit, KeepsWhatWasPromisedThroughAPowerCut) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SimulatedDisk disk(seed);
    disk.lose_power_at(seed % 30);
    uint64_t promised = 0;
    if (const auto audit = Audit::open(disk)) {
      promised = 1;
      for (uint64_t i = 0; i < 10; ++i) {
        const Hold hold = i % 3 == 0 ? Hold::kPowerCut : Hold::kCrash;
        if ((*audit)->add("token.made", {{"token", std::to_string(i)}}, hold) && hold == Hold::kPowerCut)
          promised = i + 2;
      }
    }
    disk.restart();
    EXPECT_GE(follow(log_of(disk)).count, promised) << seed;
    const auto again = Audit::open(disk);
    if (!again) {  // zeros with a line's end among them are not the service's; it says so, and touches nothing
      EXPECT_EQ(again.error().code, ErrorCode::kInvalidInput) << seed;
      continue;
    }
    ASSERT_TRUE((*again)->add("x", {}));
    EXPECT_TRUE(follow(log_of(disk)).is_whole) << seed;
  }
}

TEST(Audit, GoesOnAfterAFailedWrite) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SimulatedDisk disk(seed);
    const auto audit = *Audit::open(disk);
    disk.fail_at(disk.calls());
    EXPECT_FALSE(audit->add("one", {}));
    EXPECT_TRUE(audit->add("two", {}));
    const Followed followed = follow(log_of(disk));
    EXPECT_TRUE(followed.is_whole);
    EXPECT_EQ(followed.count, 2u);
  }
}

TEST(Audit, ShowsWhatWasChangedLeftOutOrPutIn) {
  SimulatedDisk disk(1);
  const auto audit = *Audit::open(disk);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(audit->add("exec.ended", {{"sandbox", "sbx" + std::to_string(i)}}));
  const std::string log = log_of(disk);
  ASSERT_TRUE(follow(log).is_whole);
  std::string changed = log;
  changed[log.find("sbx2") + 3] = '7';
  EXPECT_FALSE(follow(changed).is_whole);
  const size_t third = log.find("{\"number\":3"), fourth = log.find("{\"number\":4");
  EXPECT_EQ(follow(log.substr(0, third) + log.substr(fourth)).count, 2u);
  EXPECT_EQ(follow(log.substr(0, fourth) + log.substr(third)).count, 3u);
}

}  // namespace
}  // namespace membrane::service
