// The one reader of JSON that comes from outside: from guests, servers, models and files.
//
// A text is measured before it is parsed, in one pass that allocates nothing. What is deeper, has more values or
// would take more memory than the limits is refused unparsed, so a short text cannot fill the host's memory. The
// parser itself does not recurse; the library's copying, comparing, printing and freeing of values does. The depth
// limit bounds all of these: at kMaxJsonDepth they need less than half of a 256 KiB stack (json_test.cc
// measures it; with a sanitizer frames are larger).
//
// tools/check-json refuses every other call of the library's parser outside of tests.
//
// Include this from .cc files only: the library's header is slow to compile. Threads: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/result.h"

namespace membrane {

inline constexpr size_t kMaxJsonDepth = 200;

// What a text has in it. For text that is JSON these are upper bounds. For other text the parser stops at the first
// error, and has made no more than this by then.
struct JsonSize {
  size_t depth = 0;          // arrays and objects inside each other
  size_t values = 0;         // without the names of members
  size_t members = 0;        // of objects
  size_t containers = 0;     // arrays and objects
  size_t strings = 0;        // names too
  size_t string_bytes = 0;   // as written, in all strings
  size_t longest_bytes = 0;  // of one string or number, as written

  // The most memory that parsing the text and keeping the result takes. Of the same order as what it does take: at
  // most twice for large texts, more for short ones.
  [[nodiscard]] uint64_t memory_bytes() const;
  // The part of it that keeping the result takes.
  [[nodiscard]] uint64_t kept_bytes() const;
};
JsonSize measure_json(std::string_view text);

inline constexpr size_t kMaxJsonValues = 1'000'000;

struct JsonLimits {
  size_t bytes = 16u << 20;  // of text
  size_t depth = kMaxJsonDepth;
  size_t values = kMaxJsonValues;  // and names of members
  uint64_t memory_bytes = 128u << 20;
};

// What the text stands for. `what` begins the message of an error: "the headers".
// kTooLong: past the limits for bytes, values or memory. kInvalidInput: past the limit for depth, or no JSON (also
// when a string is not UTF-8). Of members with one name the last counts.
Result<nlohmann::json> read_json(std::string_view text, std::string_view what = "the text",
                                 const JsonLimits& limits = {});
// Whether read_json() would read it, without making anything of it: the same errors. A number that no double holds passes.
Status check_json(std::string_view text, std::string_view what = "the text", const JsonLimits& limits = {});
// As read_json(), with members in the order of the text; of members with one name the first gives the place, the last the
// value. Looking up a member takes a step for each that stands before it.
Result<nlohmann::ordered_json> read_ordered_json(std::string_view text, std::string_view what = "the text",
                                                 const JsonLimits& limits = {});

// For texts of trusted people, whose errors have a place: what the parser did not expect is quoted in several copies.
// Calls `visitor` for what stands in the text, within the limits. False: the visitor stopped it, or the text is no
// JSON (the visitor's parse_error() has been called).
Result<bool> visit_json(std::string_view text, nlohmann::json_sax<nlohmann::json>& visitor,
                        std::string_view what = "the text", const JsonLimits& limits = {});

// The value as text in UTF-8: a string's bytes that are none become U+FFFD.
std::string json_text(const nlohmann::json& value);
std::string json_text(const nlohmann::ordered_json& value);

// How long json_text() of a string is, at most.
size_t json_text_bytes(std::string_view text);

}  // namespace membrane
