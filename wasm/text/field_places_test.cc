#include "wasm/text/field_places.h"

#include <gtest/gtest.h>

namespace membrane::wasm {
namespace {

constexpr std::string_view kText =
    "(module $m\n"
    "  (type (func))\n"
    "  (import \"env\" \"f\" (func $imported))\n"
    "  (func $own (export \"a\") (call $imported)) (; (func $commented) ;)\n"
    "  (table funcref (elem $own))\n"
    "  (elem declare func $own)\n"
    "  (memory (data \"in memory\"))\n"
    "  (data \"apart\")\n"
    "  (global (import \"env\" \"g\") i32)\n"
    "  (export \"a\" (func $own))\n"
    "  (start $own))\n";

std::string_view at(Place place) { return kText.substr(place.offset, place.end_offset - place.offset); }

TEST(FieldPlaces, FindEveryKindOfField) {
  EXPECT_EQ(at(place_of_field(kText, FieldKind::kType, 0)), "(type (func))");
  EXPECT_EQ(at(place_of_field(kText, FieldKind::kFunc, 0)), "(import \"env\" \"f\" (func $imported))");
  EXPECT_EQ(at(place_of_field(kText, FieldKind::kFunc, 1)), "(func $own (export \"a\") (call $imported))");
  EXPECT_EQ(at(place_of_field(kText, FieldKind::kTable, 0)), "(table funcref (elem $own))");
  EXPECT_EQ(at(place_of_field(kText, FieldKind::kElem, 0)), "(elem $own)");
  EXPECT_EQ(at(place_of_field(kText, FieldKind::kElem, 1)), "(elem declare func $own)");
  EXPECT_EQ(at(place_of_field(kText, FieldKind::kMemory, 0)), "(memory (data \"in memory\"))");
  EXPECT_EQ(at(place_of_field(kText, FieldKind::kData, 0)), "(data \"in memory\")");
  EXPECT_EQ(at(place_of_field(kText, FieldKind::kData, 1)), "(data \"apart\")");
  EXPECT_EQ(at(place_of_field(kText, FieldKind::kGlobal, 0)), "(global (import \"env\" \"g\") i32)");
  EXPECT_EQ(at(place_of_field(kText, FieldKind::kStart, 0)), "(start $own)");
  EXPECT_EQ(place_of_field(kText, FieldKind::kStart, 0).line, 11u);
}

TEST(FieldPlaces, FindExportsByNameWhereverTheyStand) {
  EXPECT_EQ(place_of_export(kText, "a", 0).line, 4u);
  EXPECT_EQ(place_of_export(kText, "a", 1).line, 10u);
  EXPECT_FALSE(place_of_export(kText, "a", 2).in_text());
  EXPECT_FALSE(place_of_export(kText, "b", 0).in_text());
}

TEST(FieldPlaces, ShowTheHeadOfALongForm) {
  const std::string text = "(func $long " + std::string(100, ' ') + "(nop))";
  const Place place = place_of_field(text, FieldKind::kFunc, 0);
  EXPECT_EQ(text.substr(place.offset, place.end_offset - place.offset), "(func $long");
}

TEST(FieldPlaces, KnowNoPlaceOfWhatIsNotThere) {
  EXPECT_FALSE(place_of_field(kText, FieldKind::kFunc, 2).in_text());
  EXPECT_FALSE(place_of_field("", FieldKind::kFunc, 0).in_text());
  EXPECT_FALSE(place_of_field("(module (func", FieldKind::kFunc, 0).in_text());
  EXPECT_FALSE(place_of_field("(import \"a\" \"b\")", FieldKind::kFunc, 0).in_text());
}

}  // namespace
}  // namespace membrane::wasm
