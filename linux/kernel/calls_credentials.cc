// System calls of users and groups.
#include <linux/capability.h>

#include <algorithm>

#include "linux/kernel/call.h"

namespace membrane::linux {

namespace {

constexpr uint32_t kSame = UINT32_MAX;
constexpr int kMostGroups = 65536;

bool may_be(const Credentials& who, uint32_t id, bool is_user) {
  if (who.euid == 0 || id == kSame) return true;
  return is_user ? id == who.uid || id == who.euid || id == who.suid
                 : id == who.gid || id == who.egid || id == who.sgid;
}

uint32_t arg_of(Call& call, int i) { return static_cast<uint32_t>(call.arg(i)); }

void set(uint32_t& id, uint32_t wanted) {
  if (wanted != kSame) id = wanted;
}

}  // namespace

int64_t sys_getuid(Call& call) { return call.process().credentials.uid; }
int64_t sys_geteuid(Call& call) { return call.process().credentials.euid; }
int64_t sys_getgid(Call& call) { return call.process().credentials.gid; }
int64_t sys_getegid(Call& call) { return call.process().credentials.egid; }

int64_t sys_setresuid(Call& call) {
  Credentials& who = call.process().credentials;
  for (int i = 0; i < 3; ++i)
    if (!may_be(who, arg_of(call, i), true)) return -EPERM;
  set(who.uid, arg_of(call, 0));
  set(who.euid, arg_of(call, 1));
  set(who.suid, arg_of(call, 2));
  who.fsuid = who.euid;
  return 0;
}

int64_t sys_setresgid(Call& call) {
  Credentials& who = call.process().credentials;
  for (int i = 0; i < 3; ++i)
    if (!may_be(who, arg_of(call, i), false)) return -EPERM;
  set(who.gid, arg_of(call, 0));
  set(who.egid, arg_of(call, 1));
  set(who.sgid, arg_of(call, 2));
  who.fsgid = who.egid;
  return 0;
}

int64_t sys_setreuid(Call& call) {
  Credentials& who = call.process().credentials;
  if (!may_be(who, arg_of(call, 0), true) || !may_be(who, arg_of(call, 1), true)) return -EPERM;
  const bool sets_saved =
      arg_of(call, 0) != kSame || (arg_of(call, 1) != kSame && arg_of(call, 1) != who.uid);
  set(who.uid, arg_of(call, 0));
  set(who.euid, arg_of(call, 1));
  if (sets_saved) who.suid = who.euid;
  who.fsuid = who.euid;
  return 0;
}

int64_t sys_setregid(Call& call) {
  Credentials& who = call.process().credentials;
  if (!may_be(who, arg_of(call, 0), false) || !may_be(who, arg_of(call, 1), false)) return -EPERM;
  const bool sets_saved =
      arg_of(call, 0) != kSame || (arg_of(call, 1) != kSame && arg_of(call, 1) != who.gid);
  set(who.gid, arg_of(call, 0));
  set(who.egid, arg_of(call, 1));
  if (sets_saved) who.sgid = who.egid;
  who.fsgid = who.egid;
  return 0;
}

int64_t sys_setuid(Call& call) {
  Credentials& who = call.process().credentials;
  const uint32_t id = arg_of(call, 0);
  if (id == kSame) return -EINVAL;
  if (who.euid == 0) who.uid = who.euid = who.suid = id;
  else if (id == who.uid || id == who.suid) who.euid = id;
  else return -EPERM;
  who.fsuid = who.euid;
  return 0;
}

int64_t sys_setgid(Call& call) {
  Credentials& who = call.process().credentials;
  const uint32_t id = arg_of(call, 0);
  if (id == kSame) return -EINVAL;
  if (who.euid == 0) who.gid = who.egid = who.sgid = id;
  else if (id == who.gid || id == who.sgid) who.egid = id;
  else return -EPERM;
  who.fsgid = who.egid;
  return 0;
}

int64_t sys_getresuid(Call& call) {
  const Credentials& who = call.process().credentials;
  CALL_TRY(call.put(call.arg(0), who.uid));
  CALL_TRY(call.put(call.arg(1), who.euid));
  return answer(call.put(call.arg(2), who.suid));
}

int64_t sys_getresgid(Call& call) {
  const Credentials& who = call.process().credentials;
  CALL_TRY(call.put(call.arg(0), who.gid));
  CALL_TRY(call.put(call.arg(1), who.egid));
  return answer(call.put(call.arg(2), who.sgid));
}

int64_t sys_setfsuid(Call& call) {
  Credentials& who = call.process().credentials;
  const uint32_t before = who.fsuid, id = arg_of(call, 0);
  if (id != kSame && (may_be(who, id, true) || id == who.fsuid)) who.fsuid = id;
  return before;
}

int64_t sys_setfsgid(Call& call) {
  Credentials& who = call.process().credentials;
  const uint32_t before = who.fsgid, id = arg_of(call, 0);
  if (id != kSame && (may_be(who, id, false) || id == who.fsgid)) who.fsgid = id;
  return before;
}

int64_t sys_getgroups(Call& call) {
  const auto& groups = call.process().credentials.groups;
  if (call.int_arg(0) < 0) return -EINVAL;
  if (call.int_arg(0) == 0) return static_cast<int64_t>(groups.size());
  if (static_cast<size_t>(call.int_arg(0)) < groups.size()) return -EINVAL;
  CALL_TRY(call.task.write_memory(call.arg(1), std::as_bytes(std::span(groups))));
  return static_cast<int64_t>(groups.size());
}

int64_t sys_setgroups(Call& call) {
  Credentials& who = call.process().credentials;
  if (who.euid != 0) return -EPERM;
  if (call.int_arg(0) < 0 || call.int_arg(0) > kMostGroups) return -EINVAL;
  std::vector<uint32_t> groups(static_cast<size_t>(call.int_arg(0)));
  CALL_TRY(call.task.read_memory(call.arg(1), std::as_writable_bytes(std::span(groups))));
  who.groups = std::move(groups);
  return 0;
}

// The superuser has every capability of the sandbox, and others have none; they cannot be set one by one.
int64_t sys_capget(Call& call) {
  struct Header {
    uint32_t version;
    int32_t pid;
  };
  CALL_ASSIGN(Header header, call.get<Header>(call.arg(0)));
  const bool is_known =
      header.version == _LINUX_CAPABILITY_VERSION_3 || header.version == _LINUX_CAPABILITY_VERSION_2;
  if (!is_known) {
    header.version = _LINUX_CAPABILITY_VERSION_3;
    CALL_TRY(call.put(call.arg(0), header));
    return call.arg(1) == 0 ? 0 : -EINVAL;
  }
  if (call.arg(1) == 0) return 0;
  const uint64_t all = call.process().credentials.euid == 0 ? (uint64_t{1} << (CAP_LAST_CAP + 1)) - 1 : 0;
  const auto low = static_cast<uint32_t>(all), high = static_cast<uint32_t>(all >> 32);
  const std::array<uint32_t, 6> sets = {low, low, 0, high, high, 0};
  return answer(call.put(call.arg(1), sets));
}

int64_t sys_capset(Call& call) { return call.process().credentials.euid == 0 ? 0 : -EPERM; }

}  // namespace membrane::linux
