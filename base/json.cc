#include "base/json.h"

#include <algorithm>
#include <new>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json_grammar.h"

namespace membrane {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// Upper bounds for what the library allocates (nlohmann-json 3.11, 64-bit, glibc).
constexpr uint64_t kValueBytes = 48;      // 16 in an array that doubles, beside its old copy
constexpr uint64_t kMemberBytes = 144;    // 48 in such an array (ordered_json); a node of a map is smaller
constexpr uint64_t kContainerBytes = 80;  // the container itself, and its smallest allocation
constexpr uint64_t kStringBytes = 72;     // the string itself, and the overhead of its bytes
constexpr uint64_t kTokenCopies = 5;      // the lexer has the token twice, in buffers that double

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// Where the string that begins before `at` ends: the offset after its closing quote, or the end of the text.
size_t end_of_string(std::string_view text, size_t at) {
  while (at < text.size() && text[at] != '"') at += text[at] == '\\' ? 2 : 1;
  return std::min(at + 1, text.size());
}

size_t end_of_word(std::string_view text, size_t at) {
  constexpr std::string_view kEnds = "[]{},:\" \t\r\n";
  return std::min(text.find_first_of(kEnds, at), text.size());
}

// Measures the text, if it is within the limits.
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

std::unexpected<Error> no_json(std::string_view what) {
  return fail(ErrorCode::kInvalidInput, std::string(what) + " is not JSON");
}

// What `make` makes of the text; nothing for a number that is too large.
template <typename Make>
auto parse(std::string_view text, std::string_view what, Make make)
    -> Result<typename decltype(make())::value_type> {
  if (!is_json(text)) return no_json(what);
  try {
    if (auto value = make()) return *std::move(value);
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kTooLong, std::string(what) + " does not fit in the host's memory");
  }
  return no_json(what);
}

using Members = ordered_json::object_t::Container;

// Of members with the same name, the first keeps its position and gets the value of the last.
void drop_repeated(Members& members) {
  std::vector<uint32_t> order(members.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(order, [&](uint32_t a, uint32_t b) {
    const int by_name = members[a].first.compare(members[b].first);
    return by_name < 0 || (by_name == 0 && a < b);
  });
  std::vector<bool> is_repeated(members.size());
  bool any = false;
  for (size_t i = 0; i < order.size();) {
    size_t last = i;
    while (last + 1 < order.size() && members[order[last + 1]].first == members[order[i]].first) ++last;
    if (last != i) members[order[i]].second = std::move(members[order[last]].second);
    for (size_t k = i + 1; k <= last; ++k) is_repeated[order[k]] = any = true;
    i = last + 1;
  }
  if (!any) return;
  Members kept;
  for (size_t i = 0; i < members.size(); ++i)
    if (!is_repeated[i]) kept.emplace_back(members[i].first, std::move(members[i].second));
  members = std::move(kept);
}

// Builds a value whose members keep the order of the text. The library's own builder searches all members of an
// object for each one that it adds; this one removes repeated names once, at the end of the object.
class OrderedBuilder : public nlohmann::json_sax<ordered_json> {
 public:
  ordered_json value;

  bool null() override { return add(nullptr); }
  bool boolean(bool is_true) override { return add(is_true); }
  bool number_integer(int64_t number) override { return add(number); }
  bool number_unsigned(uint64_t number) override { return add(number); }
  bool number_float(double number, const std::string& /*text*/) override { return add(number); }
  bool string(std::string& text) override { return add(std::move(text)); }
  bool binary(ordered_json::binary_t& /*bytes*/) override { return false; }
  bool start_object(size_t /*members*/) override { return open(ordered_json::object()); }
  bool start_array(size_t /*items*/) override { return open(ordered_json::array()); }
  bool key(std::string& name) override {
    name_ = std::move(name);
    return true;
  }
  bool end_object() override {
    drop_repeated(open_.back()->get_ref<ordered_json::object_t&>());
    return end_array();
  }
  bool end_array() override {
    open_.pop_back();
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  bool add(ordered_json made) {
    place(std::move(made));
    return true;
  }
  bool open(ordered_json made) {
    open_.push_back(place(std::move(made)));
    return true;
  }
  // Nothing is added to the parent of an open container until that container is closed, so the pointers stay valid.
  ordered_json* place(ordered_json made) {
    if (open_.empty()) return &(value = std::move(made));
    ordered_json& holder = *open_.back();
    if (auto* items = holder.get_ptr<ordered_json::array_t*>()) return &items->emplace_back(std::move(made));
    auto& members = holder.get_ref<ordered_json::object_t&>();
    return &members.emplace_back(std::move(name_), std::move(made)).second;
  }

  std::string name_;
  std::vector<ordered_json*> open_;
};

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
      ++size.values;
      ++size.containers;
      ++i;
    } else if (c == ']' || c == '}') {
      depth -= depth > 0 ? 1 : 0;
      ++i;
    } else if (c == ':') {
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
  return parse(text, what, [&] {
    json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
    return value.is_discarded() ? std::nullopt : std::optional(std::move(value));
  });
}

Status check_json(std::string_view text, std::string_view what, const JsonLimits& limits) {
  MEMBRANE_TRY(check(text, what, limits));
  if (!is_json(text)) return no_json(what);
  return {};
}

Result<ordered_json> read_ordered_json(std::string_view text, std::string_view what,
                                       const JsonLimits& limits) {
  MEMBRANE_TRY(check(text, what, limits));
  return parse(text, what, [&] {
    OrderedBuilder builder;
    const bool is_whole = ordered_json::sax_parse(text, &builder);
    return is_whole ? std::optional(std::move(builder.value)) : std::nullopt;
  });
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
