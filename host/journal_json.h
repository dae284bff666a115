// The JSON of journals: written piece by piece and read without a tree of values, so that neither takes memory in
// addition to the answer itself.
//
// It is canonical: fields in one order, no white space, strings escaped only where JSON requires it.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace membrane::host {

class JsonWriter {
 public:
  // `take` receives the text as it is made, in pieces of about 64 KiB.
  explicit JsonWriter(std::function<void(std::string_view piece)> take) : take_(std::move(take)) {}
  ~JsonWriter() { flush(); }
  JsonWriter(const JsonWriter&) = delete;
  JsonWriter& operator=(const JsonWriter&) = delete;

  void raw(std::string_view json);
  void flag(bool value) { raw(value ? "true" : "false"); }
  void number(int64_t value) { raw(std::to_string(value)); }
  void number(uint64_t value) { raw(std::to_string(value)); }
  // As a string. It must be UTF-8.
  void text(std::string_view utf8);
  // Any bytes: as a string, or as {"base64":"…"} when they are not UTF-8 or that is shorter.
  void bytes(std::string_view bytes);
  // {"name":"…"} with the bytes in base64.
  void base64(std::string_view name, std::string_view bytes);
  // An array of the output of `each`.
  template <typename List, typename Each>
  void list(const List& values, Each each) {
    raw("[");
    for (bool is_first = true; const auto& value : values) {
      if (!std::exchange(is_first, false)) raw(",");
      each(value);
    }
    raw("]");
  }

 private:
  static constexpr size_t kPieceBytes = 64u << 10;
  void flush();

  std::function<void(std::string_view)> take_;
  std::string piece_;
};

// The output of `write`, which gets a JsonWriter.
template <typename Write>
std::string json_of(Write write) {
  std::string text;
  {
    JsonWriter out([&](std::string_view piece) { text += piece; });
    write(out);
  }
  return text;
}

// Parses the output of a JsonWriter. Each function returns whether the text continues as expected, and if so moves
// past that.
class JsonReader {
 public:
  explicit JsonReader(std::string_view text) : left_(text) {}

  [[nodiscard]] std::string_view left() const { return left_; }
  [[nodiscard]] bool is_at_end() const { return left_.empty(); }
  bool skip(std::string_view json);
  bool flag(bool& value);
  bool number(int64_t& value);
  bool number(uint64_t& value);
  bool text(std::string& utf8);
  bool bytes(std::string& bytes);
  bool base64(std::string_view name, std::string& bytes);
  // Calls each() for every value of an array until it returns false.
  template <typename Each>
  bool list(Each each) {
    if (!skip("[")) return false;
    if (skip("]")) return true;
    do {
      if (!each()) return false;
    } while (skip(","));
    return skip("]");
  }

 private:
  std::string_view left_;
};

}  // namespace membrane::host
