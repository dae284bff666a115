// Where programs and sessions run: each in a worker of its own, or in this process.
//
// Threads: any.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "base/result.h"
#include "sandbox/sandbox.h"
#include "sandbox/session.h"
#include "sandbox/template.h"
#include "worker/ready_workers.h"
#include "worker/worker.h"

namespace membrane::worker {

class Guests {
 public:
  // In this process.
  Guests() = default;
  // In workers of the zygote, of which `ready` are kept waiting for guests.
  explicit Guests(std::shared_ptr<Zygote> zygote, size_t ready = 0)
      : workers_(std::make_shared<ReadyWorkers>(std::move(zygote), ready)) {}

  [[nodiscard]] sandbox::Report run(const sandbox::Program& program,
                                    const sandbox::RunOptions& options) const;
  // The same for a series of programs that may share a worker: in `worker`, or in another one stored there
  // when there is none or it was lost.
  [[nodiscard]] sandbox::Report run(const sandbox::Program& program, const sandbox::RunOptions& options,
                                    std::shared_ptr<Worker>& worker) const;
  // Errors: those of Session::create(), ReadyWorkers::open() and take().
  [[nodiscard]] Result<std::unique_ptr<sandbox::Session>> create(std::shared_ptr<const sandbox::Template> of,
                                                                 sandbox::RunOptions options) const;
  // Like Session::restore(). Errors: its own, and those of create().
  [[nodiscard]] Result<std::unique_ptr<sandbox::Session>> restore(std::shared_ptr<const sandbox::Template> of,
                                                                  std::span<const uint8_t> kept,
                                                                  sandbox::RunOptions options) const;

  // Null: in this process.
  [[nodiscard]] const std::shared_ptr<ReadyWorkers>& workers() const { return workers_; }

 private:
  [[nodiscard]] Result<std::shared_ptr<Worker>> worker_for(const sandbox::Template& of) const;

  std::shared_ptr<ReadyWorkers> workers_;
};

}  // namespace membrane::worker
