#include "base/json.h"

#include <algorithm>
#include <array>
#include <new>
#include <string>

#include "base/json_grammar.h"

namespace membrane {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// What the library (nlohmann-json 3.11, on a 64-bit machine with glibc) allocates, at most.
constexpr uint64_t kValueBytes = 48;      // 16 in an array that doubles, beside its old copy
constexpr uint64_t kMemberBytes = 144;    // 48 in such an array (ordered_json); a node of a map is smaller
constexpr uint64_t kContainerBytes = 80;  // the container itself, and its smallest allocation
constexpr uint64_t kStringBytes = 72;     // the string itself, and the overhead of its bytes
constexpr uint64_t kTokenCopies = 5;      // the lexer has the token twice, in buffers that double

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// Where the string that begins before `at` ends: the place behind its closing quote, or the end of the text.
size_t end_of_string(std::string_view text, size_t at) {
  while (at < text.size() && text[at] != '"') at += text[at] == '\\' ? 2 : 1;
  return std::min(at + 1, text.size());
}

size_t end_of_word(std::string_view text, size_t at) {
  constexpr std::string_view kEnds = "[]{},:\" \t\r\n";
  return std::min(text.find_first_of(kEnds, at), text.size());
}

// What is in the text, when it is within the limits.
Result<JsonSize> check(std::string_view text, std::string_view what, const JsonLimits& limits) {
  const auto too_large = [&](const std::string& why) {
    return fail(ErrorCode::kTooLong, std::string(what) + " " + why);
  };
  if (text.size() > limits.bytes)
    return too_large("is longer than " + std::to_string(limits.bytes) + " bytes");
  const JsonSize size = measure_json(text);
  if (size.depth > limits.depth)
    return fail(ErrorCode::kInvalidInput,
                std::string(what) + " is nested more than " + std::to_string(limits.depth) + " deep");
  if (size.values + size.members > limits.values)
    return too_large("has more than " + std::to_string(limits.values) + " values and names");
  if (size.memory_bytes() > limits.memory_bytes)
    return too_large("would take " + std::to_string(size.memory_bytes()) + " bytes of memory; " +
                     std::to_string(limits.memory_bytes) + " are left for it");
  return size;
}

template <typename Json>
Result<Json> parse(std::string_view text, std::string_view what) {
  const auto none = [&] { return fail(ErrorCode::kInvalidInput, std::string(what) + " is not JSON"); };
  if (!is_json(text)) return none();
  try {
    Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!value.is_discarded()) return value;
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kTooLong, std::string(what) + " does not fit into the host's memory");
  }
  return none();  // a number that is too large
}

template <typename Json>
std::string dump(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

uint64_t JsonSize::memory_bytes() const { return kept_bytes() + longest_bytes * kTokenCopies; }

uint64_t JsonSize::kept_bytes() const {
  return values * kValueBytes + members * kMemberBytes + containers * kContainerBytes +
         strings * kStringBytes + string_bytes;
}

JsonSize measure_json(std::string_view text) {
  JsonSize size;
  size_t depth = 0;
  std::array<size_t, kMaxJsonDepth + 1> members{};  // of the object that is open at each depth
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '"') {
      const size_t end = end_of_string(text, i + 1);
      ++size.values;
      ++size.strings;
      size.string_bytes += end - i;
      size.longest_bytes = std::max(size.longest_bytes, end - i);
      i = end;
    } else if (c == '[' || c == '{') {
      size.depth = std::max(size.depth, ++depth);
      if (depth < members.size()) members[depth] = 0;
      ++size.values;
      ++size.containers;
      ++i;
    } else if (c == ']' || c == '}') {
      depth -= depth > 0 ? 1 : 0;
      ++i;
    } else if (c == ':') {
      if (depth < members.size()) size.widest_object = std::max(size.widest_object, ++members[depth]);
      ++size.members;  // the string before it was counted as a value
      size.values -= size.values > 0 ? 1 : 0;
      ++i;
    } else if (c == ',' || is_blank(c)) {
      ++i;
    } else {
      const size_t end = end_of_word(text, i + 1);
      ++size.values;
      size.longest_bytes = std::max(size.longest_bytes, end - i);
      i = end;
    }
  }
  return size;
}

Result<json> read_json(std::string_view text, std::string_view what, const JsonLimits& limits) {
  MEMBRANE_TRY(check(text, what, limits));
  return parse<json>(text, what);
}

Result<ordered_json> read_ordered_json(std::string_view text, std::string_view what,
                                       const JsonLimits& limits) {
  MEMBRANE_ASSIGN(const JsonSize size, check(text, what, limits));
  if (size.widest_object > kMaxOrderedMembers)
    return fail(ErrorCode::kTooLong, std::string(what) + " has an object of more than " +
                                         std::to_string(kMaxOrderedMembers) + " members");
  return parse<ordered_json>(text, what);
}

Result<bool> visit_json(std::string_view text, nlohmann::json_sax<json>& visitor, std::string_view what,
                        const JsonLimits& limits) {
  MEMBRANE_TRY(check(text, what, limits));
  return json::sax_parse(text, &visitor);
}

size_t json_text_bytes(std::string_view text) {
  size_t bytes = 2;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    bytes += byte < 0x20 ? 6 : c == '"' || c == '\\' ? 2 : byte >= 0x80 ? 3 : 1;
  }
  return bytes;
}

std::string json_text(const json& value) { return dump(value); }
std::string json_text(const ordered_json& value) { return dump(value); }

}  // namespace membrane
