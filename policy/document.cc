#include "policy/document.h"

namespace membrane::policy {

std::string_view type_of(const Node& node) {
  static constexpr std::string_view kNames[] = {
      "true or false", "a whole number", "a whole number", "a number", "a string", "an array", "a table"};
  return kNames[node.value.index()];
}

}  // namespace membrane::policy
