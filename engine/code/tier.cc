#include "engine/code/tier.h"

#include <iterator>

namespace membrane::engine {

namespace {
constexpr std::string_view kTierNames[] = {"interpreter", "compiler", "auto"};
}  // namespace

std::string_view name_of(Tier tier) { return kTierNames[static_cast<size_t>(tier)]; }

std::optional<Tier> find_tier(std::string_view name) {
  for (size_t i = 0; i < std::size(kTierNames); ++i)
    if (kTierNames[i] == name) return static_cast<Tier>(i);
  return std::nullopt;
}

}  // namespace membrane::engine
