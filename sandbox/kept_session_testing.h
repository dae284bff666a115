// What tests compare of sessions that were kept and restored, and of those that were not.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sandbox/session.h"

namespace membrane::sandbox {

// All of a report but what the machine's speed decides.
inline std::string told(Report report) {
  report.run_us = report.compile_us = 0;
  for (HostCallRecord& call : report.host_calls) call.latency_us = 0;
  return render_json(report, true);
}

// What keep_fork() says of a fork is what the fork itself does.
inline void expect_kept_fork(Session& session, uint64_t number) {
  const auto kept = session.keep_fork(number);
  const auto fork = session.fork(number);
  ASSERT_TRUE(kept && fork);
  const auto of_fork = (*fork)->keep();
  ASSERT_TRUE(of_fork);
  EXPECT_TRUE(*kept == *of_fork) << "a fork was kept as other bytes than the fork's own";
}

// The session as bytes, and from them.
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
  // The frames of one that is paused say how far it came since it was restored.
  EXPECT_TRUE(again && (session.paused_at_fuel() || *again == *bytes))
      << "what was restored is kept as other bytes";
  return *std::move(restored);
}

}  // namespace membrane::sandbox
