#include "host/egress/readings.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/utf8.h"

namespace membrane::host {
namespace {

using Values = std::array<int8_t, 256>;

constexpr Values values_of(std::string_view digits, int8_t first, Values values) {
  for (size_t i = 0; i < digits.size(); ++i)
    values[static_cast<uint8_t>(digits[i])] = static_cast<int8_t>(first + static_cast<int8_t>(i));
  return values;
}
constexpr Values no_values() {
  Values values{};
  values.fill(-1);
  return values;
}
constexpr Values kHex =
    values_of("abcdef", 10, values_of("ABCDEF", 10, values_of("0123456789", 0, no_values())));
constexpr Values kBase64 = values_of(
    "-_", 62, values_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", 0, no_values()));

constexpr int kMostBreaks = 4;        // characters between two lines of digits: "\r\n" and one or two spaces
constexpr int kMostEntityDigits = 7;  // "&#1114111;"

// The nodes at a place:
//   0       the text           1       hex of it           2, 3, 4       base64 of it
//   5       hex of hex         6-8     base64 of hex       9-11          hex of base64
//   12-20   base64 of base64
constexpr std::array<uint8_t, 5> kHexOf = {1, 5, 9, 10, 11};
constexpr std::array<uint8_t, 5> kBase64Of = {2, 6, 12, 15, 18};  // and the two after it

// The first characters of escapes; the last two are the UTF-8 lead bytes of Latin-1's upper half.
bool introduces(uint8_t byte) {
  return byte == '%' || byte == '\\' || byte == '&' || byte == 0xC2 || byte == 0xC3;
}

bool is_punctuation(uint8_t byte) {
  return (byte > ' ' && byte < '0') || (byte > '9' && byte < 'A') || (byte > 'Z' && byte < 'a') ||
         (byte > 'z' && byte < 0x7F);
}

// The character of `
// ` and similar escapes; 0 for another letter.
char control_of(uint8_t letter) {
  switch (letter) {
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case 'b': return '\b';
    case 'f': return '\f';
    default: return 0;
  }
}

bool is_high_surrogate(uint32_t unit) { return unit >= 0xD800 && unit < 0xDC00; }
bool is_low_surrogate(uint32_t unit) { return unit >= 0xDC00 && unit < 0xE000; }

}  // namespace

Readings::Readings() : places_(kPlaces) {}

void Readings::begin(size_t size) {
  Place& end = places_[size % kPlaces];
  end.nodes_with_steps = end.digits = end.line_breaks = 0;
}

void Readings::read(size_t place, char byte, bool as_digits) {
  Place& here = places_[place % kPlaces];
  here.nodes_with_steps = here.digits = here.line_breaks = 0;
  begin_node(place, 0,
             {.count = 1, .bytes = {static_cast<uint8_t>(byte)}, .length = 1, .next = 1, .node = 0});
  if (!as_digits) return;
  for (size_t node = 0; node < kParents; ++node) {
    if (!read_as_digit(place, node)) continue;
    read_as_hex(place, node);
    read_as_base64(place, node);
  }
}

// Adds `step`, and the escapes that begin with it.
void Readings::begin_node(size_t place, size_t node, const Step& step) {
  Place& here = places_[place % kPlaces];
  Node& made = here.nodes[node];
  here.nodes_with_steps |= 1u << node;
  made.count = 1;
  made.introductions = 0;
  made.steps[0] = step;
  if (introduces(step.bytes[0])) undo_escapes(place, made);
  const auto is_line_break = [](const Step& s) {
    return s.count == 1 && (s.bytes[0] == '\r' || s.bytes[0] == '\n');
  };
  if (std::any_of(made.steps.begin(), made.steps.begin() + made.count, is_line_break))
    here.line_breaks |= 1u << node;
}

// --- digits ------------------------------------------------------------------------------

// False: it is not a digit, and has no steps, or only others.
bool Readings::read_as_digit(size_t place, size_t node) {
  Place& here = places_[place % kPlaces];
  for (const Step& step : steps(place, node)) {
    if (step.count != 1 || kBase64[step.bytes[0]] < 0) continue;
    Cursor cursor = after(place, step);
    if ((places_[cursor.place % kPlaces].line_breaks >> cursor.node & 1) != 0) skip_line_break(cursor);
    if (cursor.place - place > kReach) return false;
    here.digits |= 1u << node;
    here.digit[node] = {step.bytes[0], step.length, static_cast<uint8_t>(cursor.place - place), cursor.node};
    return true;
  }
  return false;
}

// Also skips the folding of a line: white space at the start of the next one.
void Readings::skip_line_break(Cursor& cursor) const {
  for (int count = 0; count < kMostBreaks; ++count) {
    const auto here = steps(cursor.place, cursor.node);
    const auto found = std::ranges::find_if(here, [&](const Step& step) {
      const uint8_t byte = step.count == 1 ? step.bytes[0] : 0;
      return byte == '\r' || byte == '\n' || (count > 0 && (byte == ' ' || byte == '\t'));
    });
    if (found == here.end()) return;
    cursor = after(cursor.place, *found);
  }
}

void Readings::read_as_hex(size_t place, size_t parent) {
  const Digit& first = *digit_at(place, parent);
  if (kHex[first.character] < 0) return;
  const Digit* const second = digit_at(place + first.next, first.node);
  if (second == nullptr || kHex[second->character] < 0) return;
  const size_t next = size_t{first.next} + second->next;
  if (next > kReach) return;
  const auto byte = static_cast<uint8_t>(kHex[first.character] << 4 | kHex[second->character]);
  begin_node(place, kHexOf[parent],
             {.count = 1,
              .bytes = {byte},
              .length = static_cast<uint8_t>(first.next + second->length),
              .next = static_cast<uint8_t>(next),
              .node = kHexOf[second->node]});
}

// Four characters are three bytes. Each byte has bits of two characters, and a node of its own.
void Readings::read_as_base64(size_t place, size_t parent) {
  const Digit& first = *digit_at(place, parent);
  const Digit* const second = digit_at(place + first.next, first.node);
  if (second == nullptr) return;
  const size_t next = size_t{first.next} + second->next;
  if (next > kReach) return;
  const int high = kBase64[first.character], low = kBase64[second->character];
  for (unsigned phase = 0; phase < 3; ++phase) {
    const bool is_last = phase == 2;
    const int node = is_last ? kBase64Of[second->node] : kBase64Of[first.node] + static_cast<int>(phase) + 1;
    begin_node(place, kBase64Of[parent] + phase,
               {.count = 1,
                .bytes = {static_cast<uint8_t>(high << (2 + 2 * phase) | low >> (4 - 2 * phase))},
                .length = static_cast<uint8_t>(first.next + second->length),
                .next = static_cast<uint8_t>(is_last ? next : first.next),
                .node = static_cast<uint8_t>(node)});
  }
}

// --- escapes -----------------------------------------------------------------------------

// Escapes in the results are undone as well: `%255c` is also `%5c`, and that a backslash.
void Readings::undo_escapes(size_t place, Node& node) {
  for (size_t i = 0; i < node.count; ++i) {
    const Step introduction = node.steps[i];
    if (introduction.count != 1) continue;
    const Cursor begin = after(place, introduction);
    switch (introduction.bytes[0]) {
      case '%': undo_percent(place, node, begin); break;
      case '\\': undo_backslash(place, node, begin); break;
      case '&': undo_entity(place, node, begin); break;
      case 0xC2:
      case 0xC3: undo_latin1(place, node, begin, introduction.bytes[0]); break;
      default: break;
    }
  }
}

void Readings::undo_percent(size_t place, Node& node, const Cursor& begin) {
  if (undo_hex_byte(place, node, begin)) return;
  Cursor cursor = begin;
  if (take(cursor, "u")) undo_code_units(place, node, cursor, '%');
}

bool Readings::undo_hex_byte(size_t place, Node& node, Cursor cursor) {
  uint32_t value = 0;
  if (!take_digits(cursor, 2, value)) return false;
  const char byte = static_cast<char>(value);
  add(place, node, cursor, {&byte, 1});
  return true;
}

void Readings::undo_backslash(size_t place, Node& node, const Cursor& begin) {
  for (const Step& step : steps(begin.place, begin.node)) {
    if (step.count != 1) continue;
    const uint8_t byte = step.bytes[0];
    const Cursor cursor = after(begin.place, step);
    const char meant = is_punctuation(byte) ? static_cast<char>(byte) : control_of(byte);
    if (meant != 0) add(place, node, cursor, {&meant, 1});
    else if (byte == 'u') undo_code_units(place, node, cursor, '\\');
    else if (byte == 'x') undo_hex_byte(place, node, cursor);
  }
}

void Readings::undo_entity(size_t place, Node& node, const Cursor& begin) {
  static constexpr std::pair<std::string_view, char> kNames[] = {
      {"amp;", '&'}, {"lt;", '<'}, {"gt;", '>'}, {"quot;", '"'}, {"apos;", '\''}};
  for (const auto& [name, meant] : kNames) {
    Cursor cursor = begin;
    if (take(cursor, name)) return add(place, node, cursor, {&meant, 1});
  }
  Cursor cursor = begin;
  if (!take(cursor, "#")) return;
  const int base = take(cursor, "x") || take(cursor, "X") ? 16 : 10;
  uint32_t code = 0;
  for (int count = 0; count < kMostEntityDigits; ++count) {
    const int digit = take_digit(cursor, base);
    if (digit < 0) break;
    code = code * static_cast<uint32_t>(base) + static_cast<uint32_t>(digit);
  }
  if (take(cursor, ";")) add_code_point(place, node, cursor, code);
}

void Readings::undo_latin1(size_t place, Node& node, const Cursor& begin, uint8_t first) {
  for (const Step& step : steps(begin.place, begin.node)) {
    if (step.count != 1 || step.bytes[0] < 0x80 || step.bytes[0] >= 0xC0) continue;
    const char byte = static_cast<char>((first & 3) << 6 | (step.bytes[0] & 0x3F));
    return add(place, node, after(begin.place, step), {&byte, 1});
  }
}

// Four digits, after "\u" or "%u". The second of a surrogate pair has its own introduction.
void Readings::undo_code_units(size_t place, Node& node, Cursor cursor, char introduction) {
  uint32_t unit = 0, low = 0;
  if (!take_digits(cursor, 4, unit)) return;
  if (is_high_surrogate(unit) && take_low_surrogate(cursor, introduction, low))
    unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
  add_code_point(place, node, cursor, unit);
}

bool Readings::take_low_surrogate(Cursor& cursor, char introduction, uint32_t& value) const {
  for (const Step& step : steps(cursor.place, cursor.node)) {
    if (step.count != 1 || step.bytes[0] != static_cast<uint8_t>(introduction)) continue;
    Cursor tried = after(cursor.place, step);
    if (!take(tried, "u") || !take_digits(tried, 4, value) || !is_low_surrogate(value)) continue;
    cursor = tried;
    return true;
  }
  return false;
}

bool Readings::take_digits(Cursor& cursor, int count, uint32_t& value) const {
  value = 0;
  for (int i = 0; i < count; ++i) {
    const int digit = take_digit(cursor, 16);
    if (digit < 0) return false;
    value = value << 4 | static_cast<uint32_t>(digit);
  }
  return true;
}

// Returns -1, and leaves the cursor, when there is none.
int Readings::take_digit(Cursor& cursor, int base) const {
  for (const Step& step : steps(cursor.place, cursor.node)) {
    const int value = step.count == 1 ? kHex[step.bytes[0]] : -1;
    if (value < 0 || value >= base) continue;
    cursor = after(cursor.place, step);
    return value;
  }
  return -1;
}

// False: it is not complete, and the cursor may have moved.
bool Readings::take(Cursor& cursor, std::string_view word) const {
  for (const char letter : word) {
    const auto here = steps(cursor.place, cursor.node);
    const auto found = std::ranges::find_if(here, [&](const Step& step) {
      return step.count == 1 && step.bytes[0] == static_cast<uint8_t>(letter);
    });
    if (found == here.end()) return false;
    cursor = after(cursor.place, *found);
  }
  return true;
}

// As UTF-8; and as a byte, for encoders that take bytes as Latin-1 before escaping them.
void Readings::add_code_point(size_t place, Node& node, const Cursor& end, uint32_t code) {
  const char byte = static_cast<char>(code);
  if (code < 0x100) add(place, node, end, {&byte, 1});
  if (code < 0x80 || !is_scalar_value(code)) return;
  std::string text;
  append_utf8(text, code);
  add(place, node, end, text);
}

void Readings::add(size_t place, Node& node, const Cursor& end, std::string_view bytes) {
  const bool is_introduction = bytes.size() == 1 && introduces(static_cast<uint8_t>(bytes[0]));
  if (node.count == kMostSteps || end.place - place > kReach) return;
  if (is_introduction && node.introductions == kMostIntroductions) return;
  Step step{.count = static_cast<uint8_t>(bytes.size()),
            .length = static_cast<uint8_t>(end.end - place),
            .next = static_cast<uint8_t>(end.place - place),
            .node = end.node};
  std::ranges::transform(bytes, step.bytes.begin(), [](char byte) { return static_cast<uint8_t>(byte); });
  const auto is_same = [&](const Step& other) {
    return other.next == step.next && other.node == step.node && other.count == step.count &&
           other.bytes == step.bytes;
  };
  if (std::any_of(node.steps.begin(), node.steps.begin() + node.count, is_same)) return;
  if (is_introduction) ++node.introductions;
  node.steps[node.count++] = step;
}

}  // namespace membrane::host
