// Where an embedder's session runs: the same cases hold in both places.
#pragma once

#include <gtest/gtest.h>

#include <string>

namespace membrane {

enum class SessionPlace : uint8_t { kThisProcess, kIsolated };
inline const auto kPlaces = ::testing::Values(SessionPlace::kThisProcess, SessionPlace::kIsolated);
inline std::string name_of_place(const ::testing::TestParamInfo<SessionPlace>& info) {
  return info.param == SessionPlace::kIsolated ? "Isolated" : "InThisProcess";
}

}  // namespace membrane
