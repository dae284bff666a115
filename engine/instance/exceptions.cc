#include "engine/instance/exceptions.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>

#include "engine/code/trap.h"
#include "engine/instance/machine.h"
#include "wasm/explain.h"

namespace membrane::engine {

uint64_t ExceptionArena::pages_to_add(const TagInstance& tag) const {
  const size_t words = words_of(tag);
  const uint64_t of_places = size_ % kPageWords == 0 ? 1 : 0;
  const uint64_t more = of_places + (words <= words_left_ ? 0 : pages_of(words));
  return std::max(page_count_ + more, kLentPages) - std::max(page_count_, kLentPages);
}

uint64_t ExceptionArena::add(const TagInstance* tag, const uint64_t* payload) {
  const size_t words = words_of(*tag);
  if (words > words_left_) {
    words_left_ = pages_of(words) * kPageWords;
    next_ = pages_.emplace_back(std::make_unique_for_overwrite<uint64_t[]>(words_left_)).get();
    page_count_ += pages_of(words);
  }
  if (size_ % kPageWords == 0) {
    places_.push_back(std::make_unique_for_overwrite<const Exception*[]>(kPageWords));
    ++page_count_;
  }
  auto* const made = new (next_) Exception{tag};
  if (tag->slots != 0) std::memcpy(made + 1, payload, tag->slots * sizeof(uint64_t));
  next_ += words;
  words_left_ -= words;
  places_.back()[size_ % kPageWords] = made;
  return ++size_;
}

bool Machine::keep_exception(Instance& instance, const TagInstance& tag, const uint64_t* payload,
                             uint64_t& reference) {
  ExceptionArena& arena = *instance.exceptions_;
  const uint64_t bytes = ExceptionArena::bytes_of(tag), pages = arena.pages_to_add(tag);
  if (bytes > instance.exception_bytes_left_ || pages > instance.memory_budget_.left_pages) return false;
  instance.exception_bytes_left_ -= bytes;
  instance.memory_budget_.left_pages -= pages;
  reference = arena.add(&tag, payload);
  return true;
}

namespace {

std::string show(wasm::ValType type, uint64_t bits) {
  const auto number = [](auto value) {
    char digits[32];
    return std::string(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
  };
  const std::string name(name_of(type));
  switch (type) {
    case wasm::ValType::kI32: return name + " " + number(static_cast<int32_t>(bits));
    case wasm::ValType::kI64: return name + " " + number(static_cast<int64_t>(bits));
    case wasm::ValType::kF32: return name + " " + number(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    case wasm::ValType::kF64: return name + " " + number(std::bit_cast<double>(bits));
    default: return name;
  }
}

}  // namespace

std::string describe(const Throwing& throwing) {
  constexpr size_t kShown = 4;
  const TagInstance& tag = *throwing.tag;
  std::string text = std::string(text_of(TrapKind::kUncaughtException)) + " ";
  text += tag.instance == nullptr ? "of the host" : wasm::label_of_tag(tag.instance->module(), tag.index);
  if (tag.type->params.empty()) return text;
  std::string values;
  const uint64_t* slot = throwing.payload;
  for (size_t i = 0; i < tag.type->params.size() && i < kShown; ++i) {
    const wasm::ValType type = tag.type->params[i];
    values += (values.empty() ? "" : ", ") + show(type, *slot);
    slot += slots_of(type);
  }
  return text + " [" + values + (tag.type->params.size() > kShown ? ", …]" : "]");
}

}  // namespace membrane::engine
