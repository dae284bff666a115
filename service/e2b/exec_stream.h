// Streams the output and results of an exec to a client, in the client's own format.
//
// Threads: as for BodySource.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "service/exec.h"

namespace membrane::service::e2b {

struct ExecStreamForm {
  std::string beginning = {};                                  // before everything else
  std::function<std::string(const Exec::Event&)> render = {};  // the last event is the report
  std::string keep_alive = {};
  std::function<void()> when_abandoned = {};  // may be null
};

class ExecStream final : public BodySource {
 public:
  ExecStream(std::shared_ptr<Exec> exec, ExecStreamForm form)
      : exec_(std::move(exec)), form_(std::move(form)) {}

  Piece next(size_t most_bytes, std::function<void()> wake) override {
    Piece piece{.bytes = std::exchange(form_.beginning, {}), .is_end = false};
    if (!piece.bytes.empty()) return piece;
    const Exec::Events taken = exec_->take(next_, most_bytes, std::move(wake));
    piece.is_end = taken.is_end;
    for (const Exec::Event& event : taken.events) piece.bytes += form_.render(event);
    next_ += taken.events.size();
    return piece;
  }
  [[nodiscard]] std::string keep_alive() const override { return form_.keep_alive; }
  void abandon() override {
    if (form_.when_abandoned) form_.when_abandoned();
  }

 private:
  const std::shared_ptr<Exec> exec_;
  ExecStreamForm form_;
  uint64_t next_ = 0;
};

}  // namespace membrane::service::e2b
