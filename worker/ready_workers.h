// Workers that wait for a guest: a thread spawns and locks them up in advance, so that no guest waits for
// that. While at least half of them are left, the thread pauses before it spawns another, and once none was
// requested for some milliseconds, it lets each of them rehearse: either would take the processor from
// guests.
//
// Threads: any.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/result.h"
#include "sandbox/template.h"
#include "worker/worker.h"

namespace membrane::worker {

class ReadyWorkers : public std::enable_shared_from_this<ReadyWorkers> {
 public:
  // Keeps `count` of them; 0: each is spawned on demand.
  ReadyWorkers(std::shared_ptr<Zygote> zygote, size_t count);
  ~ReadyWorkers();
  ReadyWorkers(const ReadyWorkers&) = delete;
  ReadyWorkers& operator=(const ReadyWorkers&) = delete;

  // All workers that are taken from then on have this template. Errors: those of Zygote::open().
  Status open(const sandbox::TemplateSpec& spec);
  // A worker with all templates that were opened before the call; forks of its sessions also take their
  // workers here. Errors: those of Zygote::spawn().
  Result<std::shared_ptr<Worker>> take();
  [[nodiscard]] size_t ready() const;

 private:
  struct Ready {
    std::shared_ptr<Worker> worker;
    size_t templates;  // open when it was spawned
    bool has_rehearsed = false;
  };
  Result<Ready> spawn();
  Result<std::shared_ptr<Worker>> take_any();
  void refill();
  void spawn_another(std::unique_lock<std::mutex>& lock);
  void rehearse_another(std::unique_lock<std::mutex>& lock);

  const std::shared_ptr<Zygote> zygote_;
  const size_t count_;
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable wanted_;
  std::vector<sandbox::TemplateSpec> open_;
  std::deque<Ready> ready_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace membrane::worker
