#include "host/journal_json.h"

#include <algorithm>
#include <charconv>

#include "base/base64.h"
#include "base/utf8.h"

namespace membrane::host {
namespace {

// The letters of escapes for control characters, and the characters.
constexpr std::string_view kLetters = "bfnrt\"\\", kStoodFor = "\b\f\n\r\t\"\\";

bool is_escaped(char c) { return static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\'; }

void append_escaped(std::string& out, char c) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  if (const size_t at = kStoodFor.find(c); at != std::string_view::npos) {
    out.append({'\\', kLetters[at]});
  } else {
    out.append("\\u00").append({kDigits[static_cast<size_t>(c) >> 4], kDigits[static_cast<size_t>(c) & 15]});
  }
}

size_t text_bytes(std::string_view text) {
  size_t bytes = 2;
  for (const char c : text) bytes += !is_escaped(c) ? 1 : kStoodFor.find(c) != std::string_view::npos ? 2 : 6;
  return bytes;
}

size_t base64_bytes(size_t bytes) {
  return (bytes + 2) / 3 * 4 + std::string_view(R"({"base64":""})").size();
}

// Parses "\u00XY", as written by append_escaped(). False for anything else.
bool read_control(std::string_view escape, char& c) {
  if (escape.size() != 6 || !escape.starts_with("\\u00")) return false;
  unsigned value = 0;
  const auto read = std::from_chars(escape.data() + 4, escape.data() + 6, value, 16);
  if (read.ptr != escape.data() + 6 || value >= 0x20) return false;
  std::string again;
  append_escaped(again, c = static_cast<char>(value));
  return again == escape;
}

// The end of the string that the text starts inside of.
size_t end_of_text(std::string_view text) {
  size_t at = 0;
  while (at < text.size() && text[at] != '"') at += text[at] == '\\' ? 2 : 1;
  return std::min(at, text.size());
}

template <typename Number>
bool read_number(std::string_view& left, Number& value) {
  const auto read = std::from_chars(left.data(), left.data() + left.size(), value);
  const size_t count = static_cast<size_t>(read.ptr - left.data());
  if (read.ec != std::errc() || std::to_string(value) != left.substr(0, count)) return false;
  left.remove_prefix(count);
  return true;
}

}  // namespace

void JsonWriter::flush() {
  if (!piece_.empty()) take_(piece_);
  piece_.clear();
}

void JsonWriter::raw(std::string_view json) {
  if (piece_.size() + json.size() > kPieceBytes) flush();
  if (json.size() > kPieceBytes) take_(json);
  else piece_ += json;
}

void JsonWriter::text(std::string_view utf8) {
  raw("\"");
  while (!utf8.empty()) {
    const auto end = std::ranges::find_if(utf8, is_escaped);
    const auto plain = static_cast<size_t>(end - utf8.begin());
    raw(utf8.substr(0, plain));
    utf8.remove_prefix(plain);
    std::string escaped;
    for (; !utf8.empty() && is_escaped(utf8.front()) && escaped.size() < kPieceBytes; utf8.remove_prefix(1))
      append_escaped(escaped, utf8.front());
    raw(escaped);
  }
  raw("\"");
}

void JsonWriter::bytes(std::string_view bytes) {
  if (is_utf8(bytes) && text_bytes(bytes) <= base64_bytes(bytes.size())) text(bytes);
  else base64("base64", bytes);
}

void JsonWriter::base64(std::string_view name, std::string_view bytes) {
  constexpr size_t kWholeBytes =
      kPieceBytes / 4 * 3;  // a multiple of three, so that no padding occurs in between
  raw("{\"");
  raw(name);
  raw("\":\"");
  for (; !bytes.empty(); bytes.remove_prefix(std::min(bytes.size(), kWholeBytes)))
    raw(base64_encode(bytes.substr(0, kWholeBytes)));
  raw("\"}");
}

bool JsonReader::skip(std::string_view json) {
  if (!left_.starts_with(json)) return false;
  left_.remove_prefix(json.size());
  return true;
}

bool JsonReader::flag(bool& value) {
  value = skip("true");
  return value || skip("false");
}

bool JsonReader::number(int64_t& value) { return read_number(left_, value); }
bool JsonReader::number(uint64_t& value) { return read_number(left_, value); }

bool JsonReader::text(std::string& utf8) {
  utf8.clear();
  if (!skip("\"")) return false;
  utf8.reserve(end_of_text(left_));
  while (!left_.empty() && left_.front() != '"') {
    const auto plain = static_cast<size_t>(std::ranges::find_if(left_, is_escaped) - left_.begin());
    utf8 += left_.substr(0, plain);
    left_.remove_prefix(plain);
    if (left_.empty() || left_.front() == '"') break;
    if (left_.size() < 2 || left_.front() != '\\') return false;
    char c = 0;
    size_t count = 2;
    if (const size_t at = kLetters.find(left_[1]); at != std::string_view::npos) c = kStoodFor[at];
    else if (read_control(left_.substr(0, 6), c)) count = 6;
    else return false;
    utf8 += c;
    left_.remove_prefix(count);
  }
  return skip("\"") && is_utf8(utf8);
}

bool JsonReader::bytes(std::string& bytes) {
  return left_.starts_with('"') ? text(bytes) : base64("base64", bytes);
}

bool JsonReader::base64(std::string_view name, std::string& bytes) {
  if (!skip("{\"") || !skip(name) || !skip("\":\"")) return false;
  const size_t end = left_.find('"');
  if (end == std::string_view::npos) return false;
  auto decoded = base64_decode(left_.substr(0, end));
  if (!decoded) return false;
  bytes = std::move(*decoded);
  left_.remove_prefix(end);
  return skip("\"}");
}

}  // namespace membrane::host
