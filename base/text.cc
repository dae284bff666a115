#include "base/text.h"

#include <algorithm>
#include <array>

namespace membrane {

std::string count_of(uint64_t count, std::string_view noun) {
  std::string text = std::to_string(count) + " ";
  if (count == 1) return text.append(noun);
  constexpr std::string_view kVowels = "aeiou";
  if (noun.size() > 1 && noun.ends_with('y') && !kVowels.contains(noun[noun.size() - 2]))
    return text.append(noun.substr(0, noun.size() - 1)) + "ies";
  constexpr std::array<std::string_view, 4> kHissing{"s", "x", "ch", "sh"};
  const bool hisses =
      std::ranges::any_of(kHissing, [&](std::string_view end) { return noun.ends_with(end); });
  return text.append(noun) + (hisses ? "es" : "s");
}

}  // namespace membrane
