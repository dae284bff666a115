#include "worker/guests.h"

namespace membrane::worker {

sandbox::Report Guests::run(const sandbox::Program& program, const sandbox::RunOptions& options) const {
  std::shared_ptr<Worker> worker;
  return run(program, options, worker);
}

sandbox::Report Guests::run(const sandbox::Program& program, const sandbox::RunOptions& options,
                            std::shared_ptr<Worker>& worker) const {
  if (!workers_) return sandbox::run(program, options);
  if (!worker || !worker->is_alive()) {
    auto taken = workers_->take();
    if (!taken) {
      sandbox::Report report = sandbox::refusal(taken.error());
      report.outcome = sandbox::Outcome::kFailed;  // whatever the program is
      return report;
    }
    worker = *std::move(taken);
  }
  return worker->run(program, options);
}

Result<std::shared_ptr<Worker>> Guests::worker_for(const sandbox::Template& of) const {
  MEMBRANE_TRY(workers_->open(of.spec()));
  return workers_->take();
}

Result<std::unique_ptr<sandbox::Session>> Guests::create(std::shared_ptr<const sandbox::Template> of,
                                                         sandbox::RunOptions options) const {
  if (!workers_) return sandbox::Session::create(std::move(of), std::move(options));
  MEMBRANE_ASSIGN(const auto worker, worker_for(*of));
  return worker->create(of->spec(), std::move(options));
}

Result<std::unique_ptr<sandbox::Session>> Guests::restore(std::shared_ptr<const sandbox::Template> of,
                                                          std::span<const uint8_t> kept,
                                                          sandbox::RunOptions options) const {
  if (!workers_) return sandbox::Session::restore(std::move(of), kept, std::move(options));
  MEMBRANE_ASSIGN(const auto worker, worker_for(*of));
  return worker->restore(of->spec(), kept, std::move(options));
}

}  // namespace membrane::worker
