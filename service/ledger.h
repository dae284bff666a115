// What the service knows beyond its own end of sandboxes and of what their tenants use: each sandbox is in the database
// before anybody hears of it, and what was used is added up by day.
//
// A sandbox that is paused outlives the service. One whose program is in memory when the service is killed is lost; the
// next service says so when it is asked for, until its time to live is over.
//
// What could not be written when it happened, for want of room, is written by a later flush().
//
// Usage is written by flush(), so what was used in the moments before kill -9 is not counted.
//
// Threads: any.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "service/audit.h"
#include "service/kept_record.h"
#include "service/log.h"
#include "service/metrics.h"
#include "service/state.h"
#include "service/tokens.h"
#include "service/watcher.h"

namespace membrane::service {

class Ledger final : public Watcher {
 public:
  struct Parts {  // all borrowed
    State& state;
    const Tokens& tokens;
    Metrics& metrics;
    Audit* audit;  // null: none
    Log& log;
    std::function<int64_t()> now_ms = {};  // null: the system's clock
  };
  // Settles what the service before has left. Errors: as State.
  static Result<std::unique_ptr<Ledger>> open(Parts parts, Quotas usual);

  // Those that the service before has kept. Once: the caller takes them over.
  [[nodiscard]] std::vector<KeptSandbox> take_kept() { return std::move(kept_); }
  // To be told of lost sandboxes whose time is over. Before the first flush().
  void on_forgotten(std::function<void(const std::string& sandbox)> tell) { forgotten_ = std::move(tell); }
  // One of them that cannot be had any more.
  void lose(const KeptSandbox& sandbox, const std::string& reason);

  // Writes what was used since the last time, and forgets what is over. To be called now and then, and at the end.
  void flush();

  struct Used {
    uint64_t fuel = 0, egress_bytes = 0, execs = 0;

    void add(const Used& more) {
      fuel += more.fuel;
      egress_bytes += more.egress_bytes;
      execs += more.execs;
    }
  };
  [[nodiscard]] Used used_today(const std::string& tenant);

  Quotas quotas_of(const std::string& tenant) override;
  Answer<void> may_exec(const std::string& tenant) override;
  // An exec gets at most half of what is left and nobody holds, or a sixteenth of the quota where that is more: a policy that
  // allows more than the quota leaves something to the tenant's other execs, and the day's quota can be used up.
  Answer<std::optional<uint64_t>> hold_fuel(const std::string& tenant, uint64_t wanted) override;
  Answer<void> created(const std::string& tenant, const SandboxInfo& sandbox, const policy::Policy& policy,
                       uint64_t took_us) override;
  Answer<void> changed(const std::string& tenant, const SandboxInfo& sandbox) override;
  Answer<void> kept(const KeptSandbox& sandbox) override;
  Answer<void> resumed(const std::string& tenant, const std::string& sandbox) override;
  void ended(const std::string& tenant, const std::string& sandbox, EndReason why) override;
  void exec_ended(const ExecFacts& facts, const sandbox::Report& report) override;
  std::string why_gone(const std::string& tenant, const std::string& sandbox) override;

 private:
  Ledger(Parts parts, Quotas usual) : parts_(parts), usual_(usual) {}
  [[nodiscard]] int64_t now_ms() const;
  // Under the mutex. Also after the clock was set back: then the day has some usage already.
  void begin_day(int64_t day);
  // Under the mutex: of a quota, what is neither used nor held. Errors: as may_exec().
  [[nodiscard]] Answer<uint64_t> fuel_left(const std::string& tenant, uint64_t quota, int64_t now) const;
  void note(std::string_view what, const Status& done);
  void remove(const std::string& sandbox);
  Answer<void> audited(std::string_view event, const std::string& tenant, const std::string& sandbox);

  struct Lost {
    std::string tenant, reason;
    int64_t expires_at_ms = 0;
  };

  const Parts parts_;
  const Quotas usual_;
  std::function<void(const std::string&)> forgotten_;
  std::vector<KeptSandbox> kept_;  // from open() to take_kept()
  std::mutex mutex_;               // guards what follows
  int64_t day_ = -1;
  std::map<std::string, Used> today_;          // by tenant
  std::map<std::string, uint64_t> held_fuel_;  // by tenant, of execs that run under a quota
  std::map<std::pair<int64_t, std::string>, Used>
      unwritten_;                     // what is not in the database, by day and tenant
  bool cannot_write_usage_ = false;   // it was said
  std::map<std::string, Lost> lost_;  // by the sandbox's id
  std::set<std::string> unremoved_;   // sandboxes that have ended, and are in the database still
};

}  // namespace membrane::service
