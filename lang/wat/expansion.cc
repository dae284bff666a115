#include "lang/wat/expansion.h"

#include <algorithm>
#include <utility>

namespace membrane::lang {

Expansion::Range Expansion::original_range(uint32_t begin, uint32_t end) const {
  if (mappings.empty()) return {begin, end};
  const auto mapping_of = [this](uint32_t offset) -> const Mapping& {
    const auto next = std::upper_bound(mappings.begin(), mappings.end(), offset,
                                       [](uint32_t at, const Mapping& m) { return at < m.expanded; });
    return next == mappings.begin() ? *next : *(next - 1);
  };
  const Mapping& first = mapping_of(begin);
  if (!first.is_copy) return {first.original, first.original_end};
  Range range{first.original + (begin - first.expanded), 0};
  if (end <= begin) return range;
  const Mapping& last = mapping_of(end - 1);
  range.end = last.is_copy ? last.original + (end - last.expanded) : last.original_end;
  if (range.end <= range.begin) range.end = first.original_end;
  return range;
}

std::string Expansion::hint_of_untaken(const Place& place) const {
  const auto is_after = [&](const UntakenErrno& call) { return call.begin >= place.offset; };
  const auto next = std::ranges::find_if(untaken, is_after);
  if (next == untaken.begin()) return {};
  const UntakenErrno& call = *(next - 1);
  if (place.offset >= call.function_end) return {};
  const std::string plain = "(call $" + call.function + " …)", checked = "(call $" + call.function + "! …)";
  const std::string in_line = plain + " in line " + std::to_string(call.line);
  if (!call.has_value)
    return in_line + " leaves an errno: write " + checked +
           ", which stops the program when it fails, or (set $errno " + plain + ") to continue.";
  return in_line + " leaves a value and an errno: write " +
         (call.is_statement ? "(drop " + checked + ")" : checked) + " to " +
         (call.is_statement ? "drop" : "keep") + " the value, or (set $value $errno " + plain +
         ") to have both.";
}

Place Expansion::original_place(const Place& expanded, std::string_view source) const {
  const Range range = original_range(expanded.offset, expanded.end_offset);
  return locate(source, range.begin, range.end);
}

void Writer::copy_to(uint32_t offset) {
  if (offset <= copied_) return;
  out_.mappings.push_back({static_cast<uint32_t>(out_.text.size()), copied_, offset, true});
  out_.text += source_.substr(copied_, offset - copied_);
  copied_ = offset;
}

void Writer::make(std::string_view made, uint32_t begin, uint32_t end) {
  if (made.empty()) return;
  out_.mappings.push_back({static_cast<uint32_t>(out_.text.size()), begin, end, false});
  out_.text += made;
}

void Writer::replace(uint32_t begin, uint32_t end, std::string_view made, uint32_t blame_end) {
  changed_ = true;
  made_bytes_ += made.size();
  if (!enabled_ || is_full()) return;
  copy_to(begin);
  make(made, begin, blame_end == 0 ? end : blame_end);
  const auto gone = source_.substr(begin, end - begin);
  const auto breaks = std::count(gone.begin(), gone.end(), '\n');
  make(std::string(static_cast<size_t>(breaks), '\n'), begin, end);
  copied_ = end;
}

void Writer::insert(uint32_t at, std::string_view made, uint32_t blame_begin, uint32_t blame_end) {
  changed_ = true;
  made_bytes_ += made.size();
  if (!enabled_ || is_full()) return;
  copy_to(at);
  make(made, blame_begin, blame_end);
}

Expansion Writer::finish() {
  if (!changed_ || !enabled_) return {};
  copy_to(static_cast<uint32_t>(source_.size()));
  out_.changed = true;
  return std::move(out_);
}

}  // namespace membrane::lang
