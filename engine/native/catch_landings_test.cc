// Clauses and where they land.
#include "engine/native/catch_landings.h"

#include <gtest/gtest.h>

namespace membrane::engine::native {
namespace {

TEST(CatchLandingsTest, ClausesOfALabelLandAtItsEnd) {
  CatchLandings landings;
  landings.start();
  uint32_t chain = CatchLandings::kNone;
  landings.add_waiting({}, 3, chain);
  landings.add_returning({});
  landings.add_waiting({}, 3, chain);
  landings.add_known({}, 4, 70, 1);
  landings.land(chain, 50, 6);
  EXPECT_EQ(chain, CatchLandings::kNone);

  std::vector<CatchLandings::Landing> written;
  landings.write([&](const CatchLandings::Landing& landing) {
    written.push_back(landing);
    return static_cast<uint32_t>(100 * written.size());
  });
  ASSERT_EQ(written.size(), 4u);
  EXPECT_EQ(written[0], (CatchLandings::Landing{false, 50, 6}));
  EXPECT_TRUE(written[1].returns);
  EXPECT_EQ(written[2], written[0]);
  EXPECT_EQ(written[3], (CatchLandings::Landing{false, 70, 1}));
  EXPECT_EQ(landings.table().clauses[2].landing, 300u);
  EXPECT_EQ(landings.table().clauses[3].slot, 4u);
}

TEST(CatchLandingsTest, EqualNeighboursShareTheirCode) {
  CatchLandings landings;
  landings.start();
  for (int i = 0; i < 3; ++i) landings.add_known({}, 0, 70, 1);
  uint32_t count = 0;
  landings.write([&](const CatchLandings::Landing&) { return ++count; });
  EXPECT_EQ(count, 1u);
  for (const CatchTable::Clause& clause : landings.table().clauses) EXPECT_EQ(clause.landing, 1u);
}

}  // namespace
}  // namespace membrane::engine::native
