// Sandboxes in their state at one moment, kept until their owner removes them; a snapshot with a name is a
// template of the tenant.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "service/kept_guest.h"
#include "service/state.h"

namespace membrane::service {

struct SnapshotInfo {
  std::string id;
  std::string tenant;
  std::string sandbox;        // the sandbox that it was taken of
  std::string template_name;  // the sandbox's template
  std::string name;           // the template's name, if promoted; "": none
  int64_t created_at_ms = 0;
  uint64_t size_bytes = 0;
};
struct Snapshot {
  SnapshotInfo info;
  KeptGuest guest;
};

class Snapshots {
 public:
  // Both are borrowed. `state`: where they are stored beyond the service's end; null: nowhere.
  explicit Snapshots(Images& images, State* state = nullptr, size_t most_of_tenant = 1'000)
      : images_(images), state_(state), most_of_tenant_(most_of_tenant) {}

  // Those of the service before; takes a reference to each image. Returns sentences about what is damaged, which stays and
  // cannot be used. Errors: as State.
  Result<std::vector<std::string>> load();

  // Takes over the references of the guest, also when it is refused. Errors: kQuotaExceeded; those of the
  // state, as all that change something have them.
  Answer<SnapshotInfo> add(SnapshotInfo info, KeptGuest guest);
  // A tenant's, oldest first.
  [[nodiscard]] std::vector<SnapshotInfo> list(std::string_view tenant) const;
  // By id. Errors: kNotFound.
  [[nodiscard]] Answer<Snapshot> find(std::string_view tenant, std::string_view id) const;
  // By name. Errors: kNotFound.
  [[nodiscard]] Answer<Snapshot> find_template(std::string_view tenant, std::string_view name) const;
  // Errors: kNotFound; kConflict for a name that another snapshot has.
  Answer<SnapshotInfo> promote(std::string_view tenant, std::string_view id, std::string_view name);
  // Takes back the name of the snapshot that has it; the snapshot stays. Errors: kNotFound.
  Answer<void> remove_template(std::string_view tenant, std::string_view name);
  // Sandboxes that were made of it stay. Errors: kNotFound; kConflict while it has a name.
  Answer<void> remove(std::string_view tenant, std::string_view id);

 private:
  Answer<void> write(const Snapshot& snapshot);

  Images& images_;
  State* const state_;
  const size_t most_of_tenant_;
  mutable std::mutex mutex_;  // guards what follows
  std::map<std::string, Snapshot, std::less<>> snapshots_;
};

}  // namespace membrane::service
