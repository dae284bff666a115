// str: operations on strings and numbers that WebAssembly lacks.
//
// Strings are bytes; positions and lengths count bytes. All searching takes linear time for any input, and a result
// that may be far larger than its arguments is measured before it is made.
#include <algorithm>
#include <limits>

#include "base/search.h"
#include "base/text.h"
#include "base/utf8.h"
#include "host/capabilities/all.h"
#include "host/capabilities/call.h"
#include "host/capabilities/read_json.h"
#include "host/capabilities/str_forms.h"
#include "host/text/numbers.h"

namespace membrane::host {
namespace {

using nlohmann::json;

constexpr size_t kNone = std::string_view::npos;
constexpr int64_t kMaxItems = kMaxJsonValues;  // per JSON array

// Memories are smaller than 4 GiB, but the size of a string may not fit in an i32.
int32_t to_i32(size_t value) {
  return static_cast<int32_t>(std::min<size_t>(value, std::numeric_limits<int32_t>::max()));
}
int32_t place(size_t at) { return at == kNone ? -1 : to_i32(at); }

HostResult<Value> map_bytes(const Call& call, char (*change)(char)) {
  MEMBRANE_TRY(call.check_size(call.text(0).size()));
  std::string changed(call.text(0));
  std::ranges::transform(changed, changed.begin(), change);
  return changed;
}

// Calls `visit(piece)` for each piece between separators until it returns false. An empty separator separates
// nothing.
template <typename Visit>
void for_each_piece(std::string_view text, std::string_view separator, Visit visit) {
  while (true) {
    const size_t at = separator.empty() ? kNone : find_bytes(text, separator);
    if (!visit(text.substr(0, at)) || at == kNone) return;
    text.remove_prefix(at + separator.size());
  }
}

int64_t count_pieces(std::string_view text, std::string_view separator) {
  int64_t count = 0;
  for_each_piece(text, separator, [&](std::string_view) { return ++count > 0; });
  return count;
}

// A line feed ends a line; one at the very end does not start another line. "" has no lines.
std::string_view without_last_break(std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  return text;
}
int64_t count_lines(std::string_view text) {
  return text.empty() ? 0 : count_pieces(without_last_break(text), "\n");
}

HostResult<Value> piece_at(const Call& call, std::string_view text, std::string_view separator, int64_t count,
                           int64_t index, std::string_view what) {
  const int64_t wanted = index < 0 ? index + count : index;
  if (wanted < 0 || wanted >= count)
    return refuse(Errno::kNotFound, "there is no " + std::string(what) + " " + std::to_string(index) +
                                        "; there are " + std::to_string(count));
  std::string_view found;
  int64_t at = 0;
  for_each_piece(text, separator, [&](std::string_view piece) {
    if (at == wanted) found = piece;
    return at++ != wanted;
  });
  return call.copy_of(found);
}

HostResult<Value> repeated(const Call& call, uint64_t count) {
  const std::string_view text = call.text(0);
  if (text.empty()) return std::string();
  MEMBRANE_TRY(
      call.check_size(count > kMaxResultBytes / text.size() ? kMaxResultBytes + 1 : text.size() * count));
  std::string result;
  result.reserve(text.size() * count);
  for (uint64_t i = 0; i < count; ++i) result += text;
  return result;
}

// --- measuring and comparing -----------------------------------------------------------

HostResult<Value> length(Call& call) { return to_i32(call.text(0).size()); }
HostResult<Value> char_count(Call& call) {
  return to_i32(static_cast<size_t>(std::ranges::count_if(call.text(0), begins_character)));
}
HostResult<Value> eq(Call& call) { return truth(call.text(0) == call.text(1)); }
HostResult<Value> compare(Call& call) {
  const int order = call.text(0).compare(call.text(1));
  return int32_t{order < 0 ? -1 : order > 0 ? 1 : 0};
}
HostResult<Value> starts_with(Call& call) { return truth(call.text(0).starts_with(call.text(1))); }
HostResult<Value> ends_with(Call& call) { return truth(call.text(0).ends_with(call.text(1))); }
HostResult<Value> contains(Call& call) { return truth(find_bytes(call.text(0), call.text(1)) != kNone); }
HostResult<Value> byte(Call& call) {
  const auto index = static_cast<uint32_t>(call.i32(1));
  return index < call.text(0).size() ? int32_t{static_cast<uint8_t>(call.text(0)[index])} : int32_t{-1};
}

// --- finding ---------------------------------------------------------------------------

HostResult<Value> find(Call& call) {
  return place(find_bytes(call.text(0), call.text(1), static_cast<size_t>(std::max(call.i32(2), 0))));
}
HostResult<Value> find_last(Call& call) { return place(find_last_bytes(call.text(0), call.text(1))); }
HostResult<Value> count(Call& call) {
  return call.text(1).empty() ? int32_t{0}
                              : to_i32(static_cast<size_t>(count_pieces(call.text(0), call.text(1)) - 1));
}
HostResult<Value> between(Call& call) {
  const std::string_view text = call.text(0), left = call.text(1), right = call.text(2);
  const size_t at = find_bytes(text, left);
  const size_t start = at == kNone ? kNone : at + left.size();
  const size_t end = start == kNone ? kNone : right.empty() ? text.size() : find_bytes(text, right, start);
  if (end == kNone)
    return refuse(Errno::kNotFound,
                  std::string("the text has no such ") + (at == kNone ? "left" : "right") + " mark");
  return call.copy_of(text.substr(start, end - start));
}

// --- cutting and joining ---------------------------------------------------------------

HostResult<Value> concat(Call& call) {
  MEMBRANE_TRY(call.check_size(call.text(0).size() + call.text(1).size()));
  std::string both;
  both.reserve(call.text(0).size() + call.text(1).size());
  return both.append(call.text(0)).append(call.text(1));
}

// Back to the start of the character that contains `at`.
size_t character_start(std::string_view text, size_t at) {
  for (size_t back = 1; back <= 3 && back <= at; ++back) {
    const size_t length = utf8_length(text.substr(at - back));
    if (length > back) return at - back;
    if (length != 0) break;
  }
  return at;
}

HostResult<Value> slice(Call& call) {
  const std::string_view text = call.text(0);
  const auto clamp = [&](int64_t at) {
    if (at < 0) at += static_cast<int64_t>(text.size());
    return character_start(
        text, static_cast<size_t>(std::clamp<int64_t>(at, 0, static_cast<int64_t>(text.size()))));
  };
  const size_t start = clamp(call.i32(1)), end = clamp(call.i32(2));
  return call.copy_of(start < end ? text.substr(start, end - start) : std::string_view());
}

HostResult<Value> trim(Call& call) { return call.copy_of(trimmed(call.text(0))); }
HostResult<Value> lower(Call& call) {
  return map_bytes(call, [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
}
HostResult<Value> upper(Call& call) {
  return map_bytes(call, [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
}

HostResult<Value> replace(Call& call) {
  const std::string_view text = call.text(0), from = call.text(1), to = call.text(2);
  if (from.empty()) return call.copy_of(text);
  const auto times = static_cast<uint64_t>(count_pieces(text, from) - 1);
  const uint64_t size = text.size() - times * from.size() + times * to.size();
  MEMBRANE_TRY(call.check_size(size));
  std::string result;
  result.reserve(size);
  bool first = true;
  for_each_piece(text, from, [&](std::string_view piece) {
    if (!first) result += to;
    first = false;
    result += piece;
    return true;
  });
  return result;
}

HostResult<Value> repeat(Call& call) {
  return repeated(call, static_cast<uint64_t>(std::max(call.i32(1), 0)));
}

HostResult<Value> pad_left(Call& call) {
  const std::string_view text = call.text(0);
  const int64_t missing = std::max<int64_t>(0, int64_t{call.i32(1)} - static_cast<int64_t>(text.size()));
  MEMBRANE_TRY(call.check_size(text.size() + static_cast<uint64_t>(missing)));
  return std::string(static_cast<size_t>(missing), ' ').append(text);
}

HostResult<Value> pad_right(Call& call) {
  const std::string_view text = call.text(0);
  const int64_t missing = std::max<int64_t>(0, int64_t{call.i32(1)} - static_cast<int64_t>(text.size()));
  MEMBRANE_TRY(call.check_size(text.size() + static_cast<uint64_t>(missing)));
  return std::string(text).append(static_cast<size_t>(missing), ' ');
}

HostResult<Value> zeros(Call& call) {
  const int32_t count = call.i32(0);
  if (count < 0) return refuse(Errno::kInvalid, "a string cannot have " + std::to_string(count) + " bytes");
  MEMBRANE_TRY(call.check_size(static_cast<uint64_t>(count)));
  return std::string(static_cast<size_t>(count), '\0');
}

// --- lines and fields ------------------------------------------------------------------

HostResult<Value> line_count(Call& call) { return to_i32(static_cast<size_t>(count_lines(call.text(0)))); }

HostResult<Value> line(Call& call) {
  const std::string_view text = call.text(0);
  auto found = piece_at(call, without_last_break(text), "\n", count_lines(text), call.i32(1), "line");
  if (auto* content = found ? std::get_if<std::string>(&*found) : nullptr;
      content && content->ends_with('\r'))
    content->pop_back();
  return found;
}

HostResult<Value> field_count(Call& call) {
  return to_i32(static_cast<size_t>(count_pieces(call.text(0), call.text(1))));
}
HostResult<Value> field(Call& call) {
  return piece_at(call, call.text(0), call.text(1), count_pieces(call.text(0), call.text(1)), call.i32(2),
                  "field");
}

HostResult<Value> split(Call& call) {
  const int64_t count = count_pieces(call.text(0), call.text(1));
  if (count > kMaxItems)
    return refuse(Errno::kNoMemory, "the text has " + count_of(count, "field") + "; an array takes " +
                                        std::to_string(kMaxItems));
  constexpr uint64_t kPunctuation = 3;  // per field
  const uint64_t size = json_text_bytes(call.text(0)) + kPunctuation * static_cast<uint64_t>(count);
  MEMBRANE_TRY(call.check_size(size));
  std::string array = "[";
  array.reserve(size);
  for_each_piece(call.text(0), call.text(1), [&](std::string_view piece) {
    if (array.size() > 1) array += ',';
    array += json_text(json(piece));
    return true;
  });
  array += ']';
  return array;
}

HostResult<Value> join(Call& call) {
  JsonLimits limits = json_limits(call);
  limits.depth = 1;
  const auto array_or = read_json_for_guest(call.text(0), "the array", limits);
  if (!array_or && array_or.error().code == Errno::kTooBig) return std::unexpected(array_or.error());
  if (!array_or || !array_or->is_array())
    return refuse(Errno::kInvalid, "the text is not a JSON array of texts and numbers");
  const json& array = *array_or;
  uint64_t size = 0;
  for (const json& item : array) {
    size += (item.is_string() ? item.get_ref<const std::string&>().size() : 24) + call.text(1).size();
  }
  MEMBRANE_TRY(call.check_size(size));
  std::string result;
  result.reserve(size);
  for (size_t i = 0; i < array.size(); ++i) {
    if (i != 0) result += call.text(1);
    result += array[i].is_string() ? array[i].get_ref<const std::string&>() : array[i].dump();
  }
  return result;
}

// --- numbers ---------------------------------------------------------------------------

HostResult<Value> from_i32(Call& call) { return std::to_string(call.i32(0)); }
HostResult<Value> from_i64(Call& call) { return std::to_string(call.i64(0)); }
HostResult<Value> from_f64(Call& call) { return decimal_of(call.f64(0)); }
HostResult<Value> fixed(Call& call) { return decimal_of(call.f64(0), call.i32(1)); }
HostResult<Value> parse_to_i32(Call& call) { return parse_i32(call.text(0)); }
HostResult<Value> parse_to_i64(Call& call) { return parse_i64(call.text(0)); }
HostResult<Value> parse_to_f64(Call& call) { return parse_f64(call.text(0)); }
HostResult<Value> from_char(Call& call) {
  std::string text;
  const auto code_point = static_cast<uint32_t>(call.i32(0));
  append_utf8(text, is_scalar_value(code_point) ? code_point : 0xFFFD);
  return text;
}

constexpr Param kText{"text", Type::kBytes};
constexpr Param kOther{"other", Type::kBytes};
constexpr Param kNeedle{"needle", Type::kBytes};
constexpr Param kSeparator{"separator", Type::kBytes};
constexpr Param kIndex{"index", Type::kI32};
constexpr Param kWidth{"width", Type::kI32};
constexpr Failure kNoNumber{Errno::kInvalid, "the text is not such a number, is empty, or is out of range"};

constexpr FunctionSpec kFunctions[] = {
    {.module = "str",
     .name = "length",
     .params = {kText},
     .result = Type::kI32,
     .result_name = "bytes",
     .cost = {.base = 10, .per_byte = 0},
     .summary = "The length of the text in bytes; the same as (i32.load text).",
     .example = R"((call $io.print_i32 (call $str.length (string "hello"))))",
     .prints = "5",
     .handler = length},
    {.module = "str",
     .name = "char_count",
     .params = {kText},
     .result = Type::kI32,
     .result_name = "count",
     .summary = "The number of characters (code points) in the text.",
     .example = R"((call $io.print_i32 (call $str.char_count (string "h\c3\a9"))))",
     .prints = "2",
     .handler = char_count,
     .is_rare = true},
    {.module = "str",
     .name = "eq",
     .params = {kText, kOther},
     .result = Type::kI32,
     .result_name = "equal",
     .summary = "1 when both have the same bytes, else 0.",
     .example = R"((call $io.print_i32 (call $str.eq (string "a") (string "a"))))",
     .prints = "1",
     .handler = eq},
    {.module = "str",
     .name = "compare",
     .params = {kText, kOther},
     .result = Type::kI32,
     .result_name = "order",
     .summary =
         "-1, 0 or 1 as text comes before, equals or comes after other, by bytes; this orders ISO dates.",
     .example = R"((call $io.print_i32 (call $str.compare (string "2017-05-01") (string "2022-01-01"))))",
     .prints = "-1",
     .handler = compare},
    {.module = "str",
     .name = "starts_with",
     .params = {kText, {"prefix", Type::kBytes}},
     .result = Type::kI32,
     .result_name = "found",
     .summary = "1 when text starts with prefix, else 0; everything starts with \"\".",
     .example = R"((call $io.print_i32 (call $str.starts_with (string "papers.html") (string "papers"))))",
     .prints = "1",
     .handler = starts_with},
    {.module = "str",
     .name = "ends_with",
     .params = {kText, {"suffix", Type::kBytes}},
     .result = Type::kI32,
     .result_name = "found",
     .summary = "1 when text ends with suffix, else 0; everything ends with \"\".",
     .example = R"((call $io.print_i32 (call $str.ends_with (string "papers.html") (string ".html"))))",
     .prints = "1",
     .handler = ends_with},
    {.module = "str",
     .name = "contains",
     .params = {kText, kNeedle},
     .result = Type::kI32,
     .result_name = "found",
     .summary = R"(1 when text contains needle, else 0; every text contains "".)",
     .example = R"((call $io.print_i32 (call $str.contains (string "a needle here") (string "needle"))))",
     .prints = "1",
     .handler = contains},
    {.module = "str",
     .name = "byte",
     .params = {kText, kIndex},
     .result = Type::kI32,
     .result_name = "byte",
     .cost = {.base = 10, .per_byte = 0},
     .summary = "The byte at the index, 0 to 255; -1 when the index is negative or past the end.",
     .example = R"((call $io.print_i32 (call $str.byte (string "A") (i32.const 0))))",
     .prints = "65",
     .handler = byte},
    {.module = "str",
     .name = "find",
     .params = {kText, kNeedle, {"from", Type::kI32}},
     .result = Type::kI32,
     .result_name = "index",
     .summary = "The byte index of the first needle at or after from; -1 when there is none. A negative from "
                "counts as 0.",
     .details = "An empty needle is found at `from`, unless that is past the end.",
     .example = R"((call $io.print_i32 (call $str.find (string "a-b-c") (string "-") (i32.const 2))))",
     .prints = "3",
     .handler = find},
    {.module = "str",
     .name = "find_last",
     .params = {kText, kNeedle},
     .result = Type::kI32,
     .result_name = "index",
     .cost = {.base = 20, .per_byte = 2},
     .summary = "The byte index of the last needle; -1 when there is none.",
     .example = R"((call $io.print_i32 (call $str.find_last (string "a-b-c") (string "-"))))",
     .prints = "3",
     .handler = find_last},
    {.module = "str",
     .name = "count",
     .params = {kText, kNeedle},
     .result = Type::kI32,
     .result_name = "times",
     .summary = "How often needle occurs in text, without overlaps; 0 for an empty needle.",
     .example = R"((call $io.print_i32 (call $str.count (string "banana") (string "an"))))",
     .prints = "2",
     .handler = count},
    {.module = "str",
     .name = "between",
     .params = {kText, {"left", Type::kBytes}, {"right", Type::kBytes}},
     .result = Type::kBytes,
     .result_name = "text",
     .can_fail = true,
     .summary =
         R"(The text between the first left and the next right after it; ENOENT when one is missing. "" as right: to the end.)",
     .failures = {{Errno::kNotFound, "the text has no `left`, or no `right` after it"}},
     .example =
         R"((call $io.print (call $str.between! (string "<b>bold</b>") (string "<b>") (string "</b>"))))",
     .prints = "bold",
     .handler = between},
    {.module = "str",
     .name = "concat",
     .params = {kText, kOther},
     .result = Type::kBytes,
     .result_name = "text",
     .summary = "Both texts, one after the other.",
     .example = R"((call $io.print (call $str.concat (string "ab") (string "cd"))))",
     .prints = "abcd",
     .handler = concat,
     .is_rare = true},
    {.module = "str",
     .name = "slice",
     .params = {kText, {"start", Type::kI32}, {"end", Type::kI32}},
     .result = Type::kBytes,
     .result_name = "text",
     .summary = "The bytes from start up to but not including end. Negative positions count from the end; "
                "positions outside are clamped; no character is cut.",
     .details = "A position inside a UTF-8 character is moved back to the character's start. When start is "
                "not before end the result is empty.",
     .example = R"((call $io.print (call $str.slice (string "2017-05-01") (i32.const 0) (i32.const 4))))",
     .prints = "2017",
     .handler = slice},
    {.module = "str",
     .name = "trim",
     .params = {kText},
     .result = Type::kBytes,
     .result_name = "text",
     .summary = "The text without spaces, tabs and line breaks at both ends.",
     .example = R"((call $io.print (call $str.trim (string "  x \n"))))",
     .prints = "x",
     .handler = trim},
    {.module = "str",
     .name = "lower",
     .params = {kText},
     .result = Type::kBytes,
     .result_name = "text",
     .summary = "The text with A to Z in lower case; other letters stay.",
     .example = R"((call $io.print (call $str.lower (string "Wasm"))))",
     .prints = "wasm",
     .handler = lower},
    {.module = "str",
     .name = "upper",
     .params = {kText},
     .result = Type::kBytes,
     .result_name = "text",
     .summary = "The text with a to z in upper case; other letters stay.",
     .example = R"((call $io.print (call $str.upper (string "Wasm"))))",
     .prints = "WASM",
     .handler = upper},
    {.module = "str",
     .name = "replace",
     .params = {kText, {"from", Type::kBytes}, {"to", Type::kBytes}},
     .result = Type::kBytes,
     .result_name = "text",
     .cost = {.base = 20, .per_byte = 2},
     .summary = "The text with every from replaced by to; unchanged when from is empty.",
     .example = R"((call $io.print (call $str.replace (string "a-b-c") (string "-") (string "+"))))",
     .prints = "a+b+c",
     .handler = replace},
    {.module = "str",
     .name = "repeat",
     .params = {kText, {"times", Type::kI32}},
     .result = Type::kBytes,
     .result_name = "text",
     .summary = "The text repeated so many times; empty for 0 or less.",
     .example = R"((call $io.print (call $str.repeat (string "ab") (i32.const 3))))",
     .prints = "ababab",
     .handler = repeat},
    {.module = "str",
     .name = "pad_left",
     .params = {kText, kWidth},
     .result = Type::kBytes,
     .result_name = "text",
     .summary = "The text padded with spaces on the left to width bytes; unchanged if it is wider.",
     .example = R"((call $io.print (call $str.pad_left (string "7") (i32.const 3))))",
     .prints = "  7",
     .handler = pad_left},
    {.module = "str",
     .name = "pad_right",
     .params = {kText, kWidth},
     .result = Type::kBytes,
     .result_name = "text",
     .summary = "The text padded with spaces on the right to width bytes; unchanged if it is wider.",
     .example =
         R"((call $io.print (call $str.concat (call $str.pad_right (string "7") (i32.const 3)) (string "|"))))",
     .prints = "7  |",
     .handler = pad_right},
    {.module = "str",
     .name = "line_count",
     .params = {kText},
     .result = Type::kI32,
     .result_name = "count",
     .summary =
         R"(The number of lines in the text; a line break at the end starts no further line; "" has none.)",
     .example = R"((call $io.print_i32 (call $str.line_count (string "one\ntwo\n"))))",
     .prints = "2",
     .handler = line_count,
     .is_rare = true},
    {.module = "str",
     .name = "line",
     .params = {kText, kIndex},
     .result = Type::kBytes,
     .result_name = "text",
     .can_fail = true,
     .summary = "The line at the index, from 0, without its line break; negative counts from the end; ENOENT "
                "past the last.",
     .failures = {{Errno::kNotFound, "there is no such line"}},
     .example = R"((call $io.print (call $str.line! (string "one\ntwo\n") (i32.const 1))))",
     .prints = "two",
     .handler = line,
     .is_rare = true},
    {.module = "str",
     .name = "field_count",
     .params = {kText, kSeparator},
     .result = Type::kI32,
     .result_name = "count",
     .summary = "The number of fields that str.field can return; at least 1.",
     .example = R"((call $io.print_i32 (call $str.field_count (string "a,b,,d") (string ","))))",
     .prints = "4",
     .handler = field_count,
     .is_rare = true},
    {.module = "str",
     .name = "field",
     .params = {kText, kSeparator, kIndex},
     .result = Type::kBytes,
     .result_name = "text",
     .can_fail = true,
     .summary = "The field at the index, from 0, of a text split at each separator; negative counts from the "
                "end; ENOENT past the last.",
     .details = "Fields may be empty. An empty separator splits nothing: field 0 is the whole text.",
     .failures = {{Errno::kNotFound, "there is no such field"}},
     .example =
         R"((call $io.print (call $str.field! (string "10.0.0.7 GET /index") (string " ") (i32.const 1))))",
     .prints = "GET",
     .handler = field,
     .is_rare = true},
    {.module = "str",
     .name = "split",
     .params = {kText, kSeparator},
     .result = Type::kText,
     .result_name = "json",
     .cost = {.base = 20, .per_byte = 3},
     .summary = "The fields as a JSON array of strings, for json.at and json.length; at most 1000000.",
     .example = R"((call $io.print (call $str.split (string "a,b") (string ","))))",
     .prints = R"(["a","b"])",
     .handler = split,
     .is_rare = true},
    {.module = "str",
     .name = "join",
     .params = {{"json", Type::kText}, kSeparator},
     .result = Type::kBytes,
     .result_name = "text",
     .can_fail = true,
     .cost = {.base = 50, .per_byte = 4},
     .summary = "The texts and numbers of a JSON array in one text, with the separator between them.",
     .failures = {{Errno::kInvalid, "the text is not a JSON array, or an item is an array or an object"},
                  {Errno::kTooBig, "the array has more than 1000000 items"}},
     .example = R"((call $io.print (call $str.join! (string "[\"a\",2,\"c\"]") (string ", "))))",
     .prints = "a, 2, c",
     .handler = join,
     .is_rare = true},
    {.module = "str",
     .name = "from_i32",
     .params = {{"value", Type::kI32}},
     .result = Type::kText,
     .result_name = "text",
     .summary = "The signed number in decimal.",
     .example = "(call $io.print (call $str.from_i32 (i32.const -7)))",
     .prints = "-7",
     .handler = from_i32},
    {.module = "str",
     .name = "from_i64",
     .params = {{"value", Type::kI64}},
     .result = Type::kText,
     .result_name = "text",
     .summary = "The signed number in decimal.",
     .example = "(call $io.print (call $str.from_i64 (i64.const 5000000000)))",
     .prints = "5000000000",
     .handler = from_i64},
    {.module = "str",
     .name = "from_f64",
     .params = {{"value", Type::kF64}},
     .result = Type::kText,
     .result_name = "text",
     .summary = "The shortest decimal that reads back the same: 0.1, 3, 1e+30, inf, nan.",
     .example = "(call $io.print (call $str.from_f64 (f64.const 2.5)))",
     .prints = "2.5",
     .handler = from_f64},
    {.module = "str",
     .name = "fixed",
     .params = {{"value", Type::kF64}, {"decimals", Type::kI32}},
     .result = Type::kText,
     .result_name = "text",
     .summary = "The number with so many digits after the point, 0 to 20; other counts are clamped.",
     .example = "(call $io.print (call $str.fixed (f64.const 3.14159) (i32.const 2)))",
     .prints = "3.14",
     .handler = fixed},
    {.module = "str",
     .name = "to_i32",
     .params = {kText},
     .result = Type::kI32,
     .result_name = "value",
     .can_fail = true,
     .summary = "The whole text as a decimal number, with an optional sign and white space around it; EINVAL "
                "otherwise.",
     .failures = {kNoNumber},
     .example = R"((call $io.print_i32 (i32.add (call $str.to_i32! (string " 41 ")) (i32.const 1))))",
     .prints = "42",
     .handler = parse_to_i32},
    {.module = "str",
     .name = "to_i64",
     .params = {kText},
     .result = Type::kI64,
     .result_name = "value",
     .can_fail = true,
     .summary = "As str.to_i32, for an i64.",
     .failures = {kNoNumber},
     .example = R"((call $io.print_i64 (call $str.to_i64! (string "5000000000"))))",
     .prints = "5000000000",
     .handler = parse_to_i64},
    {.module = "str",
     .name = "to_f64",
     .params = {kText},
     .result = Type::kF64,
     .result_name = "value",
     .can_fail = true,
     .summary = "As str.to_i32, for an f64; also 1e3, inf and nan.",
     .failures = {kNoNumber},
     .example = R"((call $io.print_f64 (call $str.to_f64! (string "1e3"))))",
     .prints = "1000",
     .handler = parse_to_f64},
    {.module = "str",
     .name = "from_char",
     .params = {{"code_point", Type::kI32}},
     .result = Type::kText,
     .result_name = "text",
     .summary = "The character with this number, as UTF-8; U+FFFD when there is none.",
     .example = "(call $io.print (call $str.from_char (i32.const 65)))",
     .prints = "A",
     .handler = from_char},
    {.module = "str",
     .name = "url_encode",
     .params = {kText},
     .result = Type::kText,
     .result_name = "text",
     .summary =
         "Encodes the text for a URL's query: letters, digits, - . _ ~ stay, every other byte becomes %XX.",
     .example = R"((call $io.print (call $str.url_encode (string "a b&c"))))",
     .prints = "a%20b%26c",
     .handler = url_encode},
    {.module = "str",
     .name = "url_join",
     .params = {{"base", Type::kText}, {"reference", Type::kText}},
     .result = Type::kText,
     .result_name = "url",
     .can_fail = true,
     .cost = {.base = 500, .per_byte = 10},
     .summary = "The URL of a reference (a link) on the page base: /a, ../b.html, ?q=1 and whole URLs; "
                "without its fragment. EINVAL when base or the result is not an http or https URL.",
     .failures = {{Errno::kInvalid, "base or the result is not an http or https URL"}},
     .example =
         R"((call $io.print (call $str.url_join! (string "https://example.org/a/b.html") (string "../c.html"))))",
     .prints = "https://example.org/c.html",
     .handler = url_join},
    {.module = "str",
     .name = "zeros",
     .params = {{"count", Type::kI32}},
     .result = Type::kBytes,
     .result_name = "bytes",
     .summary = "So many zero bytes: (alloc n) is the address of the first.",
     .example = "(call $io.print_i32 (call $str.length (call $str.zeros (i32.const 8))))",
     .prints = "8",
     .handler = zeros,
     .is_rare = true},
    {.module = "str",
     .name = "to_base64",
     .params = {kText},
     .result = Type::kText,
     .result_name = "text",
     .summary = "The bytes as Base64, with padding.",
     .example = R"((call $io.print (call $str.to_base64 (string "hello"))))",
     .prints = "aGVsbG8=",
     .handler = to_base64,
     .is_rare = true},
    {.module = "str",
     .name = "from_base64",
     .params = {kText},
     .result = Type::kBytes,
     .result_name = "bytes",
     .can_fail = true,
     .summary =
         "The bytes that the Base64 encodes; EINVAL when it is malformed (no white space, complete padding).",
     .failures = {{Errno::kInvalid, "the text is not Base64 with its padding"}},
     .example = R"((call $io.print (call $str.from_base64! (string "aGVsbG8="))))",
     .prints = "hello",
     .handler = from_base64,
     .is_rare = true},
    {.module = "str",
     .name = "html_text",
     .params = {kText},
     .result = Type::kBytes,
     .result_name = "text",
     .cost = {.base = 50, .per_byte = 2},
     .summary = "The readable text of an HTML page: no tags, scripts or styles, entities decoded, white "
                "space folded.",
     .example =
         R"((call $io.print (call $str.html_text (string "<h1>A &amp; B</h1><p>One  <b>two</b></p>"))))",
     .prints = "A & B\nOne two",
     .handler = text_of_html},
    {.module = "str",
     .name = "html_links",
     .params = {kText},
     .result = Type::kText,
     .result_name = "json",
     .cost = {.base = 50, .per_byte = 3},
     .summary =
         R"(The links of an HTML page in order: [{"href":"/a.html","text":"A"}]; href is as written, so it may be relative; at most 100000.)",
     .example = R"((call $io.print (call $str.html_links (string "<a href='/a.html'>A</a>"))))",
     .prints = R"([{"href":"/a.html","text":"A"}])",
     .handler = links_of_html},
};

}  // namespace

std::span<const FunctionSpec> str_functions() { return kFunctions; }

}  // namespace membrane::host
