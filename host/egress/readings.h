// The possible readings of a text: unchanged, with escapes undone, as base64 or hex, and the results of those read
// again.
//
// The readings of a text form a graph. A node is a position in the text; in base64, also which of three bytes comes
// next. A step leads from a node to one at a later position, and has the bytes that the text between them encodes. A
// text with two readings has two steps: a "%" is a "%", and with the two digits after it the byte that they encode.
// So every encoded value, in any order of encodings and at any position, is a path.
//
//   level              what its steps spell
//   the text           its bytes. Undone: \/ \u00e9 \x2f \n, %2f %u00e9, &amp; &#47; &#x2f;, bytes of Latin-1 that were
//                      made UTF-8, and escapes of all these again
//   hex, base64        what the text's bytes are digits of, line breaks left out, in both alphabets of base64;
//                      and escapes in that
//   hex and base64     likewise
//     of hex and of base64
//
// The text is read from its end, so that everything after a position is known when its steps are made. Steps are
// kept for kReach characters, and a node has at most kMostSteps: so time and memory per character are bounded.
//
// Threads: one at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace membrane::host {

class Readings {
 public:
  static constexpr size_t kNodes = 21;  // per position
  static constexpr size_t kReach = 127;
  static constexpr size_t kPlaces = kReach + 1;  // whose steps are kept
  static constexpr size_t kMostSteps = 8;

  struct Step {
    uint8_t count = 0;  // of its bytes: 1 to 4
    std::array<uint8_t, 4> bytes = {};
    uint8_t length = 0;  // of its encoding, in characters of the text
    uint8_t next =
        0;  // the target of the step: this many characters later, after the line breaks that follow ...
    uint8_t node = 0;  // ... at this node
  };

  Readings();

  // `size` is the text's. Then read() is called for each position, from size - 1 down to 0. Without `as_digits` the
  // byte is not a digit of hex or base64, whatever it is.
  void begin(size_t size);
  void read(size_t place, char byte, bool as_digits);
  // The nodes that have steps, as bits. For a position as in steps().
  [[nodiscard]] uint32_t nodes(size_t place) const { return places_[place % kPlaces].nodes_with_steps; }
  // For a position that has been read, or the text's end, at most kReach after the last one. `node` < kNodes.
  [[nodiscard]] std::span<const Step> steps(size_t place, size_t node) const {
    const Place& found = places_[place % kPlaces];
    const Node& steps = found.nodes[node];
    return {steps.steps.data(), (found.nodes_with_steps >> node & 1) != 0 ? steps.count : size_t{0}};
  }

 private:
  static constexpr size_t kParents = 5;  // nodes whose bytes are read as digits again: the first ones
  static constexpr size_t kMostIntroductions = 3;

  struct Node {
    uint8_t count = 0;
    uint8_t introductions = 0;  // steps with a byte that escapes begin with
    std::array<Step, kMostSteps> steps;
  };
  // A step with a character of base64 or hex; its end, and where the next digit may begin.
  struct Digit {
    uint8_t character = 0, length = 0, next = 0, node = 0;
  };
  struct Place {
    // Nodes as bits. Those without steps are not initialised.
    uint32_t nodes_with_steps = 0, digits = 0, line_breaks = 0;
    std::array<Digit, kParents> digit;
    std::array<Node, kNodes> nodes;
  };
  struct Cursor {
    size_t place;
    uint8_t node;
    size_t end;  // end of what has been taken
  };

  static Cursor after(size_t place, const Step& step) {
    return {place + step.next, step.node, place + step.length};
  }
  void begin_node(size_t place, size_t node, const Step& step);
  bool read_as_digit(size_t place, size_t node);
  void read_as_hex(size_t place, size_t parent);
  void read_as_base64(size_t place, size_t parent);
  [[nodiscard]] const Digit* digit_at(size_t place, size_t node) const {
    const Place& found = places_[place % kPlaces];
    return (found.digits >> node & 1) != 0 ? &found.digit[node] : nullptr;
  }
  void skip_line_break(Cursor& cursor) const;

  void undo_escapes(size_t place, Node& node);
  void undo_percent(size_t place, Node& node, const Cursor& begin);
  void undo_backslash(size_t place, Node& node, const Cursor& begin);
  void undo_entity(size_t place, Node& node, const Cursor& begin);
  void undo_latin1(size_t place, Node& node, const Cursor& begin, uint8_t first);
  bool undo_hex_byte(size_t place, Node& node, Cursor cursor);
  void undo_code_units(size_t place, Node& node, Cursor cursor, char introduction);

  [[nodiscard]] bool take_digits(Cursor& cursor, int count, uint32_t& value) const;
  [[nodiscard]] int take_digit(Cursor& cursor, int base) const;
  [[nodiscard]] bool take(Cursor& cursor, std::string_view word) const;
  [[nodiscard]] bool take_low_surrogate(Cursor& cursor, char introduction, uint32_t& value) const;

  static void add_code_point(size_t place, Node& node, const Cursor& end, uint32_t code);
  static void add(size_t place, Node& node, const Cursor& end, std::string_view bytes);

  std::vector<Place> places_;  // a ring
};

}  // namespace membrane::host
