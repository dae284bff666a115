#include "wasm/type_relations.h"

#include <gtest/gtest.h>

#include <random>

namespace membrane::wasm {
namespace {

// Struct types, each in a group of its own, without fields or with one; `supertypes` has that of each, or kNoType.
Module structs(const std::vector<uint32_t>& supertypes, const std::vector<bool>& has_field) {
  Module module;
  module.types.resize(supertypes.size());
  for (uint32_t i = 0; i < supertypes.size(); ++i) {
    TypeDetail detail;
    detail.kind = TypeKind::kStruct;
    detail.is_final = false;
    detail.supertype = supertypes[i];
    detail.supertype_count = supertypes[i] == kNoType ? 0 : 1;
    detail.group_begin = i;
    if (has_field[i]) detail.fields.push_back({.type = ValType::kI32});
    module.type_details.push_back(std::move(detail));
  }
  return module;
}

// As the specification says it: one supertype after the other.
bool is_below(const Module& module, TypeRelations& relations, uint32_t sub, uint32_t super) {
  for (; sub != kNoType; sub = module.supertype_of(sub))
    if (relations.canonical(sub) == relations.canonical(super)) return true;
  return false;
}

TEST(TypeRelations, FindASupertypeByJumpsAsOneAfterTheOther) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    const uint32_t width = 1 + seed % 7;  // 1: a single chain
    std::vector<uint32_t> supertypes;
    std::vector<bool> has_field;
    for (uint32_t i = 0; i < 150; ++i) {
      const uint32_t back = 1 + random() % width;
      supertypes.push_back(back > i || random() % 40 == 0 ? kNoType : i - back);
      has_field.push_back(random() % 2 != 0);
    }
    const Module module = structs(supertypes, has_field);
    TypeRelations relations(module);
    uint32_t matching = 0;
    for (uint32_t sub = 0; sub < 150; ++sub) {
      const uint32_t above = module.supertype_of(sub);
      ASSERT_EQ(relations.depth(sub), above == kNoType ? 0 : relations.depth(above) + 1);
      for (uint32_t super = 0; super < 150; ++super) {
        const bool expected = is_below(module, relations, sub, super);
        ASSERT_EQ(relations.type_matches(sub, super), expected) << seed << ": " << sub << " and " << super;
        matching += expected ? 1 : 0;
      }
    }
    EXPECT_GT(matching, 150u);
  }
}

}  // namespace
}  // namespace membrane::wasm
