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
