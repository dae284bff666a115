// What the service remembers beyond its own lifetime about sandboxes and their tenants' usage: each sandbox
// is in the database before any client learns of it, and usage is added up by day.
//
// A paused sandbox outlives the service. A sandbox whose program is in memory when the service is killed is
// lost; the next service says so on request, until its time to live is over.
//
// What could not be written when it happened, for lack of space, is written by a later flush().
//
// flush() writes usage, so usage in the moments before kill -9 is not counted.
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
  // Settles what the previous service has left. Errors: those of State.
  static Result<std::unique_ptr<Ledger>> open(Parts parts, Quotas usual);

  // The sandboxes that the previous service has kept. Call it once: the caller takes them over.
  [[nodiscard]] std::vector<KeptSandbox> take_kept() { return std::move(kept_); }
  // Called with lost sandboxes whose time is over. Set it before the first flush().
  void on_forgotten(std::function<void(const std::string& sandbox)> tell) { forgotten_ = std::move(tell); }
  // One of them that cannot be restored.
  void lose(const KeptSandbox& sandbox, const std::string& reason);

  // Writes the usage since the last time, and forgets what is over. Call it from time to time, and at the
  // end.
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
  // An exec gets at most half of what is left and unheld, or a sixteenth of the quota if that is more: a
  // policy that allows more than the quota leaves something to the tenant's other execs, and the day's quota
  // can be used up.
  Answer<std::optional<uint64_t>> hold_fuel(const std::string& tenant, uint64_t wanted) override;
  Answer<void> created(const Actor& actor, const SandboxInfo& sandbox, const policy::Policy& policy,
                       const std::string& snapshot, uint64_t took_us) override;
  Answer<void> changed(const std::string& tenant, const SandboxInfo& sandbox) override;
  Answer<void> kept(const KeptSandbox& sandbox) override;
  Answer<void> resumed(const std::string& sandbox) override;
  void ended(const Actor& actor, const std::string& sandbox, EndReason why) override;
  void exec_ended(const ExecFacts& facts, const sandbox::Report& report) override;
  Answer<void> acted(const Actor& actor, std::string_view event,
                     const std::map<std::string, std::string>& fields) override;
  std::string why_gone(const std::string& tenant, const std::string& sandbox) override;

 private:
  Ledger(Parts parts, Quotas usual) : parts_(parts), usual_(usual) {}
  [[nodiscard]] int64_t now_ms() const;
  // Under the mutex. Also called after the clock was set back: then the day already has some usage.
  void begin_day(int64_t day);
  // Under the mutex: the part of a quota that is neither used nor held. Errors: those of may_exec().
  [[nodiscard]] Answer<uint64_t> fuel_left(const std::string& tenant, uint64_t quota, int64_t now) const;
  void note(std::string_view what, const Status& done);
  void remove(const std::string& sandbox);

  struct Lost {
    std::string tenant, reason;
    int64_t expires_at_ms = 0;
  };

  const Parts parts_;
  const Quotas usual_;
  std::function<void(const std::string&)> forgotten_;
  std::vector<KeptSandbox> kept_;  // between open() and take_kept()
  std::mutex mutex_;               // guards what follows
  int64_t day_ = -1;
  std::map<std::string, Used> today_;          // by tenant
  std::map<std::string, uint64_t> held_fuel_;  // by tenant, for execs that run under a quota
  std::map<std::pair<int64_t, std::string>, Used>
      unwritten_;                     // usage not yet in the database, by day and tenant
  bool cannot_write_usage_ = false;   // it was said
  std::map<std::string, Lost> lost_;  // by the sandbox's id
  std::set<std::string> unremoved_;   // ended sandboxes that are still in the database
};

}  // namespace membrane::service
