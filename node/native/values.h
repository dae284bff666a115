// Values of JavaScript's that src/ has checked, read: texts, arrays of them, names with values.
#pragma once

#include <napi.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace membrane::node {

inline std::string text_of(const Napi::Value& value) { return value.As<Napi::String>().Utf8Value(); }

// What `each` gives for each of an array.
template <typename Each>
auto all_of(const Napi::Value& given, Each each) {
  const auto array = given.As<Napi::Array>();
  std::vector<decltype(each(array.Get(uint32_t{0})))> made;
  for (uint32_t i = 0; i < array.Length(); ++i) made.push_back(each(array.Get(i)));
  return made;
}

inline std::pair<std::string, std::string> pair_of(const Napi::Value& given) {
  const auto pair = given.As<Napi::Array>();
  return {text_of(pair.Get(uint32_t{0})), text_of(pair.Get(1))};
}

}  // namespace membrane::node
