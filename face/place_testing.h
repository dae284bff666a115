// Where an embedder's session runs: the same cases hold in both places.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>

#include "base/sanitized_testing.h"
#include "membrane/session.h"
#include "membrane/session.hpp"
#include "sandbox/session/template_testing.h"

namespace membrane {

enum class SessionPlace : uint8_t { kThisProcess, kIsolated };
inline const auto kPlaces = ::testing::Values(SessionPlace::kThisProcess, SessionPlace::kIsolated);
inline std::string name_of_place(const ::testing::TestParamInfo<SessionPlace>& info) {
  return info.param == SessionPlace::kIsolated ? "Isolated" : "InThisProcess";
}

// For tests of sessions in one language, which are skipped if it is not installed.
template <typename Test>
class WithLanguage : public Test {
 protected:
  void use_language(const std::string& name) {
    setenv("XDG_CACHE_HOME", sandbox::template_cache().c_str(), 0);
    auto opened = Language::open(name);
    if (!opened) GTEST_SKIP() << opened.error().message;
    language_ = *std::move(opened);
  }

  Language language_;
};

// A sanitizer makes system calls of its own, so that wall is not raised there.
inline void put(SessionOptions& options, bool isolated) {
  options.isolated = isolated;
  if (kIsSanitized) options.accepted_missing_walls = {"system_calls"};
}
inline void put(membrane_session_options& options, bool isolated) {
  static constexpr const char* kWalls[] = {"system_calls"};
  options.isolated = isolated;
  if (kIsSanitized) options.accepted_missing_walls = kWalls;
  if (kIsSanitized) options.accepted_missing_wall_count = 1;
}

}  // namespace membrane
