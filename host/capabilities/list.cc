// list: many strings in one, so that a program iterates over lines, fields and items in linear time.
//
// A list is a string whose bytes are strings, one after the other: the address of an item is that of an ordinary
// string, and the next item begins after its last byte. (each …) of the preprocessor iterates this way.
#include <algorithm>
#include <limits>
#include <vector>

#include "base/search.h"
#include "host/call.h"
#include "host/capabilities/all.h"
#include "host/numbers.h"
#include "host/read_json.h"

namespace membrane::host {
namespace {

using Items = std::vector<std::string_view>;

constexpr size_t kLengthBytes = 4;

void append_item(std::string& list, std::string_view item) {
  for (unsigned shift = 0; shift < 32; shift += 8) list.push_back(static_cast<char>(item.size() >> shift));
  list += item;
}

uint32_t length_at(std::string_view list, size_t at) {
  uint32_t length = 0;
  for (unsigned i = 0; i < kLengthBytes; ++i)
    length |= uint32_t{static_cast<uint8_t>(list[at + i])} << (8 * i);
  return length;
}

// Calls `visit(item)` for each item. EINVAL when the text is not a list.
template <typename Visit>
HostResult<void> for_each_item(std::string_view list, Visit visit) {
  for (size_t at = 0; at < list.size();) {
    const bool has_length = list.size() - at >= kLengthBytes;
    const uint64_t length = has_length ? length_at(list, at) : 0;
    if (!has_length || length > list.size() - at - kLengthBytes)
      return refuse(Errno::kInvalid,
                    "the text is not a list: list.lines, list.split and list.words make one");
    visit(list.substr(at + kLengthBytes, length));
    at += kLengthBytes + length;
  }
  return {};
}

HostResult<int64_t> count_items(std::string_view list) {
  int64_t count = 0;
  MEMBRANE_TRY(for_each_item(list, [&](std::string_view) { ++count; }));
  return count;
}

// The items of the first argument, if there is room for them and for a list of them.
HostResult<Items> items_of(const Call& call) {
  MEMBRANE_ASSIGN(const int64_t count, count_items(call.text(0)));
  MEMBRANE_TRY(
      call.check_size(call.text(0).size() + static_cast<uint64_t>(count) * sizeof(std::string_view)));
  Items items;
  items.reserve(static_cast<size_t>(count));
  MEMBRANE_TRY(for_each_item(call.text(0), [&](std::string_view item) { items.push_back(item); }));
  return items;
}

std::string list_of(const Items& items) {
  uint64_t size = 0;
  for (const std::string_view item : items) size += kLengthBytes + item.size();
  std::string list;
  list.reserve(size);
  for (const std::string_view item : items) append_item(list, item);
  return list;
}

// The items that `for_each(visit)` visits, as a list: first measured, then made.
template <typename ForEach>
HostResult<Value> list_of_visited(const Call& call, ForEach for_each) {
  uint64_t size = 0;
  for_each([&](std::string_view item) { size += kLengthBytes + item.size(); });
  MEMBRANE_TRY(call.check_size(size));
  std::string list;
  list.reserve(size);
  for_each([&](std::string_view item) { append_item(list, item); });
  return list;
}

// --- making ------------------------------------------------------------------------------

HostResult<Value> lines(Call& call) {
  return list_of_visited(call, [&](auto visit) {
    for (std::string_view rest = call.text(0); !rest.empty();) {
      const size_t end = std::min(rest.find('\n'), rest.size());
      std::string_view line = rest.substr(0, end);
      if (line.ends_with('\r')) line.remove_suffix(1);
      visit(line);
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  });
}

HostResult<Value> split(Call& call) {
  return list_of_visited(call, [&](auto visit) {
    std::string_view rest = call.text(0);
    const std::string_view separator = call.text(1);
    while (true) {
      const size_t at = separator.empty() ? std::string_view::npos : find_bytes(rest, separator);
      visit(rest.substr(0, at));
      if (at == std::string_view::npos) return;
      rest.remove_prefix(at + separator.size());
    }
  });
}

HostResult<Value> words(Call& call) {
  return list_of_visited(call, [&](auto visit) {
    constexpr std::string_view kBlanks = " \t\n\r\v\f";
    const std::string_view text = call.text(0);
    for (size_t at = text.find_first_not_of(kBlanks); at != std::string_view::npos;) {
      const size_t end = std::min(text.find_first_of(kBlanks, at), text.size());
      visit(text.substr(at, end - at));
      at = text.find_first_not_of(kBlanks, end);
    }
  });
}

HostResult<Value> items(Call& call) {
  const std::string_view text = call.text(0);
  MEMBRANE_ASSIGN(const auto array, as_host_result(read_ordered_json(text, "the text", json_limits(call))));
  if (!array.is_array())
    return refuse(Errno::kInvalid,
                  std::string("the text is not a JSON array but of type ") + array.type_name());
  uint64_t size = 0;
  for (const auto& item : array)
    size += kLengthBytes + (item.is_string() ? item.get_ref<const std::string&>().size() : 0);
  MEMBRANE_TRY(call.check_size(size + text.size()));
  std::string list;
  for (const auto& item : array) {
    append_item(list, item.is_string() ? item.get_ref<const std::string&>() : json_text(item));
    MEMBRANE_TRY(call.check_size(list.size()));
  }
  return list;
}

// --- queries -----------------------------------------------------------------------------

HostResult<Value> count(Call& call) {
  MEMBRANE_ASSIGN(const int64_t count, count_items(call.text(0)));
  return static_cast<int32_t>(count);
}

HostResult<Value> at(Call& call) {
  MEMBRANE_ASSIGN(const int64_t count, count_items(call.text(0)));
  const int64_t wanted = call.i32(1) < 0 ? call.i32(1) + count : call.i32(1);
  if (wanted < 0 || wanted >= count)
    return refuse(Errno::kNotFound,
                  "there is no item " + std::to_string(call.i32(1)) + "; there are " + std::to_string(count));
  std::string_view found;
  int64_t index = 0;
  MEMBRANE_TRY(for_each_item(call.text(0), [&](std::string_view item) {
    if (index++ == wanted) found = item;
  }));
  return call.copy_of(found);
}

HostResult<Value> join(Call& call) {
  MEMBRANE_ASSIGN(const Items items, items_of(call));
  uint64_t size = 0;
  for (const std::string_view item : items) size += item.size() + call.text(1).size();
  MEMBRANE_TRY(call.check_size(size));
  std::string text;
  text.reserve(size);
  for (size_t i = 0; i < items.size(); ++i) {
    if (i != 0) text += call.text(1);
    text += items[i];
  }
  return text;
}

// --- changing ----------------------------------------------------------------------------

HostResult<Value> sort(Call& call) {
  MEMBRANE_ASSIGN(Items items, items_of(call));
  std::ranges::sort(items);
  return list_of(items);
}

// By the number in each item, ascending; items that are not numbers come last.
HostResult<Value> sort_numbers(Call& call) {
  MEMBRANE_ASSIGN(const Items items, items_of(call));
  struct Keyed {
    double number = 0;
    std::string_view item;
  };
  MEMBRANE_TRY(
      call.check_size(call.text(0).size() + items.size() * (sizeof(Keyed) + sizeof(std::string_view))));
  std::vector<Keyed> keyed;
  keyed.reserve(items.size());
  for (const std::string_view item : items)
    keyed.push_back({parse_f64(item).value_or(std::numeric_limits<double>::quiet_NaN()), item});
  const auto is_number = [](const Keyed& k) { return k.number == k.number; };
  const auto others = std::ranges::stable_partition(keyed, is_number);
  std::stable_sort(keyed.begin(), others.begin(),
                   [](const Keyed& a, const Keyed& b) { return a.number < b.number; });
  Items sorted;
  sorted.reserve(keyed.size());
  for (const Keyed& k : keyed) sorted.push_back(k.item);
  return list_of(sorted);
}

HostResult<Value> reverse(Call& call) {
  MEMBRANE_ASSIGN(Items items, items_of(call));
  std::ranges::reverse(items);
  return list_of(items);
}

HostResult<Value> unique(Call& call) {
  MEMBRANE_ASSIGN(Items items, items_of(call));
  items.erase(std::ranges::unique(items).begin(), items.end());
  return list_of(items);
}

constexpr Param kList{"list", Type::kBytes};
constexpr Param kText{"text", Type::kBytes};
constexpr Param kSeparator{"separator", Type::kBytes};
// Sorting compares each item a few times, each time elsewhere in memory.
constexpr Cost kSortCost{.base = 50, .per_byte = 6};

constexpr FunctionSpec kFunctions[] = {
    {.module = "list",
     .name = "lines",
     .params = {kText},
     .result = Type::kBytes,
     .result_name = "list",
     .cost = {.base = 20, .per_byte = 2},
     .summary =
         "The lines of the text, without their line breaks; a break at the end begins no further line.",
     .example = R"((call $io.print_i32 (call $list.count (call $list.lines (string "one\ntwo\n")))))",
     .prints = "2",
     .handler = lines},
    {.module = "list",
     .name = "split",
     .params = {kText, kSeparator},
     .result = Type::kBytes,
     .result_name = "list",
     .cost = {.base = 20, .per_byte = 3},
     .summary = "The fields of the text between the separators, which may be empty; at least one. An empty "
                "separator separates nothing.",
     .example =
         R"((call $io.print (call $list.join (call $list.split (string "a,b,,d") (string ",")) (string "|"))))",
     .prints = "a|b||d",
     .handler = split},
    {.module = "list",
     .name = "words",
     .params = {kText},
     .result = Type::kBytes,
     .result_name = "list",
     .cost = {.base = 20, .per_byte = 2},
     .summary = "What stands between white space; no item is empty.",
     .example = R"((call $io.print (call $list.join (call $list.words (string " to  be\n")) (string "|"))))",
     .prints = "to|be",
     .handler = words},
    {.module = "list",
     .name = "items",
     .params = {{"json", Type::kText}},
     .result = Type::kBytes,
     .result_name = "list",
     .can_fail = true,
     .cost = {.base = 50, .per_byte = 4},
     .summary = "The items of a JSON array: strings without their quotes, anything else as JSON.",
     .failures = {{Errno::kInvalid, "the text is no JSON array, or is nested more than 200 deep"},
                  {Errno::kTooBig,
                   "the text is larger than 16 MiB, has more than 1000000 values and names, or needs more "
                   "memory than is left"}},
     .example =
         R"((call $io.print (call $list.join (call $list.items! (string "[\"a\",2,{\"b\":1}]")) (string " "))))",
     .prints = R"(a 2 {"b":1})",
     .handler = items},
    {.module = "list",
     .name = "count",
     .params = {kList},
     .result = Type::kI32,
     .result_name = "count",
     .summary = "How many items the list has.",
     .example = R"((call $io.print_i32 (call $list.count (call $list.words (string "to be")))))",
     .prints = "2",
     .handler = count},
    {.module = "list",
     .name = "at",
     .params = {kList, {"index", Type::kI32}},
     .result = Type::kBytes,
     .result_name = "text",
     .can_fail = true,
     .summary = "The item at the index, from 0; negative counts from the end; ENOENT past the last. It goes "
                "through the whole list: take (each …) in loops.",
     .failures = {{Errno::kNotFound, "there is no such item"}, {Errno::kInvalid, "the text is no list"}},
     .example =
         R"((call $io.print (call $list.at! (call $list.words (string "to be or not")) (i32.const -1))))",
     .prints = "not",
     .handler = at},
    {.module = "list",
     .name = "join",
     .params = {kList, kSeparator},
     .result = Type::kBytes,
     .result_name = "text",
     .cost = {.base = 20, .per_byte = 3},
     .summary = "The items in one text, with the separator between them.",
     .example = R"((call $io.print (call $list.join (call $list.lines (string "a\nb\n")) (string ", "))))",
     .prints = "a, b",
     .handler = join},
    {.module = "list",
     .name = "sort",
     .params = {kList},
     .result = Type::kBytes,
     .result_name = "list",
     .cost = kSortCost,
     .summary = "The items in the order of their bytes.",
     .example =
         R"((call $io.print (call $list.join (call $list.sort (call $list.words (string "b c a"))) (string " "))))",
     .prints = "a b c",
     .handler = sort},
    {.module = "list",
     .name = "sort_numbers",
     .params = {kList},
     .result = Type::kBytes,
     .result_name = "list",
     .cost = kSortCost,
     .summary = "The items in the order of the numbers that they are, the least first; equal ones keep their "
                "order, and what is no number comes last.",
     .example =
         R"((call $io.print (call $list.join (call $list.sort_numbers (call $list.words (string "10 9 1e3"))) (string " "))))",
     .prints = "9 10 1e3",
     .handler = sort_numbers},
    {.module = "list",
     .name = "reverse",
     .params = {kList},
     .result = Type::kBytes,
     .result_name = "list",
     .cost = {.base = 50, .per_byte = 3},
     .summary = "The items from the last to the first.",
     .example =
         R"((call $io.print (call $list.join (call $list.reverse (call $list.words (string "a b c"))) (string " "))))",
     .prints = "c b a",
     .handler = reverse},
    {.module = "list",
     .name = "unique",
     .params = {kList},
     .result = Type::kBytes,
     .result_name = "list",
     .cost = {.base = 50, .per_byte = 3},
     .summary = "Without the items that equal the one before; sort first to drop all repetitions.",
     .example =
         R"((call $io.print (call $list.join (call $list.unique (call $list.words (string "a a b"))) (string " "))))",
     .prints = "a b",
     .handler = unique},
};

}  // namespace

std::span<const FunctionSpec> list_functions() { return kFunctions; }

}  // namespace membrane::host
