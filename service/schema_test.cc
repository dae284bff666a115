#include "service/schema.h"

#include <gtest/gtest.h>

namespace membrane::service {
namespace {

using Json = nlohmann::json;

const Json kDocument = Json::parse(R"({"components": {"schemas": {
  "Name": {"type": "string", "minLength": 1, "maxLength": 3},
  "Person": {"type": "object", "required": ["name"], "additionalProperties": false, "properties": {
    "name": {"$ref": "#/components/schemas/Name"},
    "age": {"type": ["integer", "null"], "minimum": 0, "maximum": 150},
    "tags": {"type": "array", "maxItems": 2, "uniqueItems": true, "items": {"enum": ["a", "b", "c"]}},
    "words": {"type": "object", "maxProperties": 2, "propertyNames": {"maxLength": 2},
              "additionalProperties": {"type": "string"}}}}}}})");

std::string found_in(const char* text) {
  const auto schema = Schema::make(kDocument["components"]["schemas"]["Person"], kDocument);
  EXPECT_TRUE(schema) << schema.error().message;
  const auto wrong = schema->check(Json::parse(text));
  return wrong ? wrong->field + " " + wrong->message : "";
}

TEST(Schema, TakesWhatItDescribes) {
  EXPECT_EQ(found_in(R"({"name": "äöü"})"), "");
  EXPECT_EQ(found_in(R"({"name": "x", "age": null, "tags": ["a", "b"], "words": {"a": "b"}})"), "");
  EXPECT_EQ(found_in(R"({"name": "x", "age": 1e1})"), "");
}

TEST(Schema, NamesTheFieldThatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {R"([])", " must be an object, and is an array"},
      {R"({})", "name is missing"},
      {R"({"name": null})", "name must be a string, and is null"},
      {R"({"name": ""})", "name must have at least 1 characters"},
      {R"({"name": "four"})", "name must have at most 3 characters"},
      {R"({"name": "x", "age": 1.5})", "age must be an integer or null, and is a number"},
      {R"({"name": "x", "age": 1e300})", "age must be an integer or null, and is a number"},
      {R"({"name": "x", "age": -1})", "age must be at least 0"},
      {R"({"name": "x", "age": 18446744073709551615})", "age must be at most 150"},
      {R"({"name": "x", "tags": ["a", "d"]})", "tags[1] must be one of [\"a\",\"b\",\"c\"]"},
      {R"({"name": "x", "tags": ["a", "a"]})", "tags must not have the same item twice"},
      {R"({"name": "x", "tags": ["a", "b", "c"]})", "tags must have at most 2 items"},
      {R"({"name": "x", "words": {"abc": "d"}})", "words.(a name) must have at most 2 characters"},
      {R"({"name": "x", "words": {"a": 1}})", "words.a must be a string, and is a number"},
      {R"({"name": "x", "other": 1})", "other is not known"},
  };
  for (const auto& [text, message] : cases) EXPECT_EQ(found_in(text), message) << text;
}

TEST(Schema, RefusesAKeywordThatItDoesNotCheck) {
  const Json schema = {{"type", "object"}, {"properties", {{"a", {{"pattern", "x"}}}}}};
  const auto made = Schema::make(schema, kDocument);
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message.find("pattern"), std::string::npos);
  EXPECT_FALSE(Schema::make({{"$ref", "#/components/schemas/None"}}, kDocument));
}

TEST(Schema, ReadsTextsOfQueries) {
  const Json integer = {{"type", "integer"}}, boolean = {{"type", "boolean"}}, text = {{"type", "string"}};
  EXPECT_EQ(Schema::make(integer, kDocument)->read_text("12"), Json(12));
  EXPECT_EQ(Schema::make(integer, kDocument)->read_text("12x"), Json("12x"));
  EXPECT_EQ(Schema::make(boolean, kDocument)->read_text("true"), Json(true));
  EXPECT_EQ(Schema::make(text, kDocument)->read_text("12"), Json("12"));
}

}  // namespace
}  // namespace membrane::service
