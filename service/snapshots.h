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
  // All are borrowed. `guests`: whose templates are built in. `state`: where they are stored beyond the service's end;
  // null: nowhere.
  Snapshots(Images& images, const Guests& guests, State* state = nullptr, size_t most_of_tenant = 1'000)
      : images_(images), guests_(guests), state_(state), most_of_tenant_(most_of_tenant) {}

  // Those of the service before; takes a reference to each image. Returns sentences about what is damaged, which stays and
  // cannot be used, and about names that check_name() refuses, which are removed. Errors: as State.
  Result<std::vector<std::string>> load();

  // Takes over the references of the guest, also when it is refused. Errors: kQuotaExceeded; those of the
  // state, as all that change something have them.
  Answer<SnapshotInfo> add(SnapshotInfo info, KeptGuest guest);
  // A tenant's, oldest first.
  [[nodiscard]] std::vector<SnapshotInfo> list(std::string_view tenant) const;
  // By id. Errors: kNotFound.
  [[nodiscard]] Answer<Snapshot> find(std::string_view tenant, std::string_view id) const;
  // By name; a built-in template hides one of the same name. Errors: kNotFound.
  [[nodiscard]] Answer<Snapshot> find_template(std::string_view tenant, std::string_view name) const;
  // Whether a template may have this name. Errors: kInvalidValue; kConflict for one that is built in.
  [[nodiscard]] Answer<void> check_name(std::string_view name) const;
  // Errors: those of check_name(); kNotFound; kConflict for a name that another snapshot has.
  Answer<SnapshotInfo> promote(std::string_view tenant, std::string_view id, std::string_view name);
  // Takes back the name of the snapshot that has it; the snapshot stays. Errors: kNotFound.
  Answer<void> remove_template(std::string_view tenant, std::string_view name);
  // Sandboxes that were made of it stay. Errors: kNotFound; kConflict while it has a name.
  Answer<void> remove(std::string_view tenant, std::string_view id);

 private:
  Answer<void> write(const Snapshot& snapshot);
  [[nodiscard]] bool is_built_in(std::string_view name) const;

  Images& images_;
  const Guests& guests_;
  State* const state_;
  const size_t most_of_tenant_;
  mutable std::mutex mutex_;  // guards what follows
  std::map<std::string, Snapshot, std::less<>> snapshots_;
};

}  // namespace membrane::service
