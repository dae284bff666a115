// Where an embedder's session runs: the same cases hold in both places.
#pragma once

#include <gtest/gtest.h>

#include <string>

namespace membrane {

enum class Place : uint8_t { kThisProcess, kIsolated };
inline const auto kPlaces = ::testing::Values(Place::kThisProcess, Place::kIsolated);
inline std::string name_of_place(const ::testing::TestParamInfo<Place>& info) {
  return info.param == Place::kIsolated ? "Isolated" : "InThisProcess";
}

}  // namespace membrane
