#include "engine/testing/module_generator_testing.h"

#include "engine/testing/body_generator_testing.h"
#include "engine/testing/generator_parts_testing.h"

namespace membrane::engine {

GeneratedModule generate_module(std::span<const uint8_t> bytes, Dialect dialect) {
  using namespace wasm::testing;
  using namespace generator;
  Choices choices(bytes, dialect);
  TypeSection types(choices.has_references());
  GeneratedModule made;
  std::vector<wasm::FuncType> functions(kFunctionCount);
  std::vector<Types> tags;
  std::vector<Bytes> declared, bodies, indices;
  for (wasm::FuncType& f : functions) {
    if (&f == functions.data()) f = {choices.outer_types(4), choices.outer_types(choices.one_in(6) ? 6 : 2)};
    else f = {choices.types(4), choices.types(choices.one_in(6) ? 6 : 2)};
    if (choices.has_exceptions() && &f != functions.data()) {  // the first is called from outside
      if (choices.one_in(4)) f.params.push_back(kExnRef);
      if (choices.one_in(6)) f.results.push_back(kExnRef);
    }
    if (choices.has_references() && &f != functions.data()) {
      if (choices.one_in(3)) f.params.push_back(kPair);
      if (choices.one_in(4)) f.params.push_back(kAnyRef);
      if (choices.one_in(4)) f.results.push_back(kPair);
    }
    declared.push_back(u32(types.index_of(f.params, f.results)));
  }
  std::vector<Bytes> declared_tags;
  for (uint32_t i = 0; choices.has_exceptions() && i < 3; ++i) {
    tags.push_back(choices.types(i == 0 ? 1 : 3));
    if (i == 2 && choices.one_in(3)) tags[i].push_back(kExnRef);
    if (i == 1 && choices.has_references()) tags[i].push_back(kPair);
    declared_tags.push_back(cat({{0x00}, u32(types.index_of(tags[i], {}))}));
  }
  for (size_t i = 0; i < functions[0].params.size(); ++i) made.arguments.push_back(choices.number());
  for (uint32_t i = 0; i < kFunctionCount; ++i) {
    bodies.push_back(BodyGenerator(choices, types, functions, tags, i).generate());
    indices.push_back(u32(i));
  }
  const Bytes zero_offset = code("i32.const 0; end");
  const Bytes elements = vec({cat({{0x00}, zero_offset, vec(indices)}),
                              cat({{0x01, 0x00}, vec({u32(3), u32(1), u32(0)})})});  // active, and passive
  std::vector<Bytes> globals = {
      cat({{0x7F, 1},
           code(choices.is_shared() ? "i32.const 5; end" : "i32.const 7; i32.const 2; i32.sub; end")}),
      cat({{0x7E, 1}, code("i64.const -5; end")}), cat({{0x7D, 1}, code("f32.const; end")}),
      cat({{0x7C, 1}, code("f64.const; end")}), cat({{0x7B, 1}, code("v128.const; end")})};
  if (choices.has_exceptions()) globals.push_back(cat({{0x69, 1}, code("ref.null exnref; end")}));
  if (choices.has_references()) globals.push_back({0x63, kPairType, 1, 0xD0, kPairType, 0x0B});
  Bytes data(kDataBytes);
  for (uint32_t i = 0; i < kDataBytes; ++i) data[i] = static_cast<uint8_t>(i * 37 + 1);
  std::vector<Bytes> exports = {cat({name("run"), {0x00}, u32(0)}),   cat({name("memory"), {0x02}, u32(0)}),
                                cat({name("table"), {0x01}, u32(0)}), cat({name("g0"), {0x03}, u32(0)}),
                                cat({name("g1"), {0x03}, u32(1)}),    cat({name("g2"), {0x03}, u32(2)}),
                                cat({name("g3"), {0x03}, u32(3)}),    cat({name("g4"), {0x03}, u32(4)})};
  if (!choices.is_shared()) {
    exports.push_back(cat({name("memory1"), {0x02}, u32(1)}));
    exports.push_back(cat({name("memory2"), {0x02}, u32(2)}));
  }
  if (choices.has_exceptions()) exports.push_back(cat({name("g5"), {0x03}, u32(kExceptionGlobal)}));
  made.binary = binary(
      {types.bytes(), section(3, vec(declared)), section(4, vec({{0x70, 0x01, kTableSize, kTableSize + 6}})),
       section(5,
               choices.is_shared() ? vec({{0x01, 1, 3}}) : vec({{0x01, 1, 3}, {0x01, 1, 2}, {0x05, 1, 2}})),
       declared_tags.empty() ? Bytes{} : section(13, vec(declared_tags)), section(6, vec(globals)),
       section(7, vec(exports)), section(9, elements), section(12, u32(1)), section(10, vec(bodies)),
       section(11, vec({cat({{0x01}, sized(data)})}))});
  return made;
}

std::vector<uint8_t> choices_of_seed(uint64_t seed, size_t count) {
  std::vector<uint8_t> bytes(count);
  uint64_t state = seed;
  for (uint8_t& b : bytes) {  // SplitMix64
    uint64_t z = state += 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    b = static_cast<uint8_t>((z ^ (z >> 31)) >> 24);
  }
  return bytes;
}

}  // namespace membrane::engine
