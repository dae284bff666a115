#include "linux/kernel/system_v.h"

#include "linux/kernel/call.h"
#include "linux/kernel/kernel.h"

namespace membrane::linux {

SystemV& system_v(Call& call) {
  if (call.kernel.system_v == nullptr) call.kernel.system_v = std::make_shared<SystemV>();
  return *call.kernel.system_v;
}

Done may_use(const Call& call, const IpcOwner& owner, uint32_t wanted) {
  const Credentials& who = call.process().credentials;
  uint32_t granted = owner.mode;
  if (who.euid == owner.uid || who.euid == owner.creator_uid) granted >>= 6;
  else if (who.egid == owner.gid || who.egid == owner.creator_gid || who.is_in(owner.gid) ||
           who.is_in(owner.creator_gid))
    granted >>= 3;
  if ((wanted & ~granted & 7) != 0 && who.euid != 0) return err(EACCES);
  return {};
}

Done may_control(const Call& call, const IpcOwner& owner) {
  const uint32_t who = call.process().credentials.euid;
  if (who != 0 && who != owner.uid && who != owner.creator_uid) return err(EPERM);
  return {};
}

IpcOwner new_owner(const Call& call, int key, int flags) {
  const Credentials& who = call.process().credentials;
  return {.key = key,
          .uid = who.euid,
          .gid = who.egid,
          .creator_uid = who.euid,
          .creator_gid = who.egid,
          .mode = static_cast<uint32_t>(flags) & 0777};
}

ipc_perm reported_owner(const IpcOwner& owner, int id) {
  ipc_perm shown = {};
  shown.__key = owner.key;
  shown.uid = owner.uid;
  shown.gid = owner.gid;
  shown.cuid = owner.creator_uid;
  shown.cgid = owner.creator_gid;
  shown.mode = owner.mode;
  shown.__seq = static_cast<unsigned short>(id / IpcTable<SharedSegment>::kPlaces);
  return shown;
}

void take_owner(IpcOwner& owner, const ipc_perm& shown) {
  owner.uid = shown.uid;
  owner.gid = shown.gid;
  owner.mode = shown.mode & 0777;
}

int64_t ipc_time(const Call& call) { return call.kernel.now(CLOCK_REALTIME).tv_sec; }

}  // namespace membrane::linux
