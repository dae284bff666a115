// The state of the trifecta rule in saved sessions and runs.
#include <gtest/gtest.h>

#include "host/random_fork.h"
#include "sandbox/frozen_state.h"
#include "sandbox/session_state.h"

namespace membrane::sandbox {
namespace {

host::FlowState read_some(size_t reads) {
  host::FlowState flows;
  flows.calls = 7;
  for (size_t i = 0; i < reads; ++i)
    flows.private_reads.first.push_back({i + 1, "fs.read", "/inbox/" + std::to_string(i)});
  flows.untrusted_reads.first.push_back({3, "http.request", "GET https://example.org/"});
  flows.untrusted_reads.more = 2;
  return flows;
}

SessionState session(const host::FlowState& flows) {
  SessionState state;
  state.fresh = RandomStream(RandomStream::key_of(0));
  state.flows = flows;
  return state;
}

TEST(FlowState, GoesAlongWithASession) {
  const auto bytes = write_session(session(read_some(3)));
  EXPECT_EQ(bytes[8], 2);
  const auto again = read_session(bytes);
  ASSERT_TRUE(again) << again.error().to_string();
  EXPECT_EQ(again->flows, read_some(3));
}

TEST(FlowState, ASessionWithoutIsWrittenAsBefore) {
  const auto bytes = write_session(session({}));
  EXPECT_EQ(bytes[8], 1);
  const auto again = read_session(bytes);
  ASSERT_TRUE(again) << again.error().to_string();
  EXPECT_TRUE(again->flows.is_empty());
}

TEST(FlowState, GoesAlongWithAFrozenRun) {
  FrozenState state;
  EXPECT_EQ(write_state(state)[4], 2);
  state.flows = read_some(3);
  const auto bytes = write_state(state);
  EXPECT_EQ(bytes[4], 3);
  const auto again = read_state(bytes);
  ASSERT_TRUE(again) << again.error().to_string();
  EXPECT_EQ(again->flows, read_some(3));
}

TEST(FlowState, MoreReadsThanThereCanBeAreRefused) {
  EXPECT_TRUE(read_session(write_session(session(read_some(host::FlowReads::kMost)))));
  EXPECT_FALSE(read_session(write_session(session(read_some(host::FlowReads::kMost + 1)))));
  FrozenState state;
  state.flows = read_some(host::FlowReads::kMost + 1);
  EXPECT_FALSE(read_state(write_state(state)));
}

}  // namespace
}  // namespace membrane::sandbox
