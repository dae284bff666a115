#include "mcp/peer.h"

#include <algorithm>

#include "base/text.h"

namespace membrane::mcp {

Peer::Peer() : impl_(std::make_unique<Impl>()) {}
Peer::~Peer() = default;
void Peer::cancel_all() { impl_->cancel_all(); }

Peer::Impl::UnderWay::~UnderWay() {
  if (!is_listed_) return;
  Impl& impl = peer_->impl();
  const std::lock_guard lock(impl.mutex_);
  impl.under_way_.remove(this);
}

std::optional<ProtocolError> Peer::Impl::begin(UnderWay& call, size_t most) {
  const std::lock_guard lock(mutex_);
  if (under_way_.size() >= most)
    return ProtocolError{Code::kInternalError,
                         "There are " + count_of(most, "request") + " under way: wait for an answer."};
  if (std::ranges::any_of(under_way_, [&](const UnderWay* each) { return each->id_ == call.id_; }))
    return ProtocolError{Code::kInvalidRequest, "A request with this id is under way."};
  under_way_.push_back(&call);
  call.is_listed_ = true;
  call.cancelled = is_over_;
  return std::nullopt;
}

void Peer::Impl::cancel(const Json& id) {
  const std::lock_guard lock(mutex_);
  for (UnderWay* const each : under_way_)
    if (each->id_ == id) each->cancelled = true;
}

void Peer::Impl::cancel_all() {
  const std::lock_guard lock(mutex_);
  is_over_ = true;
  for (UnderWay* const each : under_way_) each->cancelled = true;
}

}  // namespace membrane::mcp
