// The only reader for JSON from outside: from guests, servers, models and files.
//
// A text is measured before it is parsed, in one pass that allocates nothing. A text that exceeds the limits for
// depth, values or memory is refused unparsed, so a short text cannot fill the host's memory. The parser itself does
// not recurse; the library's copying, comparing, printing and freeing of values does. The depth limit bounds all of
// these: at kMaxJsonDepth they need less than half of a 256 KiB stack (json_test.cc measures it; with a sanitizer
// frames are larger).
//
// tools/check-json rejects every other call of the library's parser outside of tests.
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

// The contents of a text. For valid JSON these are upper bounds. For other text the parser stops at the first error,
// and has created no more than this by then.
struct JsonSize {
  size_t depth = 0;          // nesting of arrays and objects
  size_t values = 0;         // without member names
  size_t members = 0;        // of objects
  size_t containers = 0;     // arrays and objects
  size_t strings = 0;        // including member names
  size_t string_bytes = 0;   // as written, in all strings
  size_t longest_bytes = 0;  // of one string or number, as written

  // Upper bound for the memory that parsing the text and keeping the result takes. At most twice the actual use for
  // large texts, more for short ones.
  [[nodiscard]] uint64_t memory_bytes() const;
  // The part of it for keeping the result.
  [[nodiscard]] uint64_t kept_bytes() const;
};
JsonSize measure_json(std::string_view text);

inline constexpr size_t kMaxJsonValues = 1'000'000;

struct JsonLimits {
  size_t bytes = 16u << 20;  // of text
  size_t depth = kMaxJsonDepth;
  size_t values = kMaxJsonValues;  // and member names
  uint64_t memory_bytes = 128u << 20;
};

// Parses the text. `what` starts the message of an error: "the headers". kTooLong: the text exceeds the limits for
// bytes, values or memory. kInvalidInput: it exceeds the limit for depth, or is not JSON (including strings that are
// not UTF-8). Of members with the same name the last counts.
Result<nlohmann::json> read_json(std::string_view text, std::string_view what = "the text",
                                 const JsonLimits& limits = {});
// Whether read_json() would accept the text, without building a value: the same errors. A number too large for a
// double passes.
Status check_json(std::string_view text, std::string_view what = "the text", const JsonLimits& limits = {});
// As read_json(), with members in the order of the text; of members with the same name the first determines the
// position, the last the value. Looking up a member is linear in its position.
Result<nlohmann::ordered_json> read_ordered_json(std::string_view text, std::string_view what = "the text",
                                                 const JsonLimits& limits = {});

// For trusted texts whose errors need a place: the parser quotes what it did not expect in several copies. Calls
// `visitor` for each event, within the limits. Returns false if the visitor stopped it or the text is not JSON (the
// visitor's parse_error() has been called).
Result<bool> visit_json(std::string_view text, nlohmann::json_sax<nlohmann::json>& visitor,
                        std::string_view what = "the text", const JsonLimits& limits = {});

// The value as UTF-8 text: bytes of a string that are not UTF-8 become U+FFFD.
std::string json_text(const nlohmann::json& value);
std::string json_text(const nlohmann::ordered_json& value);

// The maximum length of json_text() for a string.
size_t json_text_bytes(std::string_view text);

}  // namespace membrane
