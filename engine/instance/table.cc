#include "engine/instance/table.h"

#include <algorithm>
#include <utility>

namespace membrane::engine {

wasm::TableType Table::type() const {
  wasm::TableType type{element, {elements.size(), std::nullopt, is_64}};
  if (has_max) type.limits.max = max;
  return type;
}

std::span<uint64_t> TableElements::writable() {
  if (owned_ != nullptr && owned_.use_count() > 1) own(std::make_shared<Owned>(*owned_));
  return owned_ == nullptr ? std::span<uint64_t>() : std::span(*owned_);
}

void TableElements::resize(size_t size, uint64_t value) {
  if (size == this->size()) return;
  auto elements = std::make_shared<Owned>();
  if (owned_ != nullptr && owned_.use_count() == 1) elements = std::move(owned_);
  else elements->assign(begin_, end_);
  elements->resize(size, value);
  own(std::move(elements));
}

void TableElements::own(std::shared_ptr<Owned> elements) {
  owned_ = std::move(elements);
  begin_ = owned_->data();
  end_ = begin_ + owned_->size();
}

bool Table::allow(uint64_t size) {
  const uint64_t more = size - std::min<uint64_t>(size, elements.size());
  if (more > *allowance) return false;
  *allowance -= static_cast<uint32_t>(more);
  return true;
}

int64_t Table::grow(uint64_t delta, uint64_t value) {
  if (!can_grow(delta)) return -1;
  const auto before = static_cast<int64_t>(elements.size());
  elements.resize(elements.size() + delta, value);
  *allowance -= static_cast<uint32_t>(delta);
  return before;
}

}  // namespace membrane::engine
