// What tests compare between sessions that were saved and restored, and sessions that were not.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sandbox/session.h"

namespace membrane::sandbox {

// A report without what depends on the machine's speed.
inline std::string comparable(Report report) {
  report.run_us = report.compile_us = 0;
  for (HostCallRecord& call : report.host_calls) call.latency_us = 0;
  return render_json(report, true);
}

// keep_fork() must give the same bytes as the fork itself.
inline void expect_kept_fork(Session& session, uint64_t number) {
  const auto kept = session.keep_fork(number);
  const auto fork = session.fork(number);
  ASSERT_TRUE(kept && fork);
  const auto of_fork = (*fork)->keep();
  ASSERT_TRUE(of_fork);
  EXPECT_TRUE(*kept == *of_fork) << "keep_fork() and the fork gave different bytes";
}

// Saves the session to bytes, and restores it.
inline std::unique_ptr<Session> kept_and_restored(const Session& session,
                                                  const std::shared_ptr<const Template>& of,
                                                  const RunOptions& options) {
  const auto bytes = session.keep();
  EXPECT_TRUE(bytes) << bytes.error().message;
  if (!bytes) return nullptr;
  auto restored = Session::restore(of, *bytes, options);
  EXPECT_TRUE(restored) << restored.error().message;
  if (!restored) return nullptr;
  const auto again = (*restored)->keep();
  // The frames of a paused session record its progress since it was restored.
  EXPECT_TRUE(again && (session.paused_at_fuel() || *again == *bytes))
      << "the restored session gave different bytes";
  return *std::move(restored);
}

}  // namespace membrane::sandbox
