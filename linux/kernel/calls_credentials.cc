// System calls of users and groups.
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/prctl.h>

#include <algorithm>
#include <array>

#include "linux/kernel/credential_calls.h"
#include "linux/kernel/kernel.h"

namespace membrane::linux {

namespace {

constexpr uint32_t kSame = UINT32_MAX;
constexpr int kMostGroups = 65536;

bool may_set(const Process& process, bool is_user) {
  return process.credentials.euid == 0 || process.capabilities.has(is_user ? CAP_SETUID : CAP_SETGID);
}

bool may_be(const Process& process, uint32_t id, bool is_user) {
  const Credentials& who = process.credentials;
  if (id == kSame || may_set(process, is_user)) return true;
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
  const Credentials before = who;
  for (int i = 0; i < 3; ++i)
    if (!may_be(call.process(), arg_of(call, i), true)) return -EPERM;
  set(who.uid, arg_of(call, 0));
  set(who.euid, arg_of(call, 1));
  set(who.suid, arg_of(call, 2));
  who.fsuid = who.euid;
  call.process().capabilities.change_user(before, who);
  return 0;
}

int64_t sys_setresgid(Call& call) {
  Credentials& who = call.process().credentials;
  for (int i = 0; i < 3; ++i)
    if (!may_be(call.process(), arg_of(call, i), false)) return -EPERM;
  set(who.gid, arg_of(call, 0));
  set(who.egid, arg_of(call, 1));
  set(who.sgid, arg_of(call, 2));
  who.fsgid = who.egid;
  return 0;
}

int64_t sys_setreuid(Call& call) {
  Credentials& who = call.process().credentials;
  const Credentials before = who;
  if (!may_be(call.process(), arg_of(call, 0), true) || !may_be(call.process(), arg_of(call, 1), true))
    return -EPERM;
  const bool sets_saved =
      arg_of(call, 0) != kSame || (arg_of(call, 1) != kSame && arg_of(call, 1) != who.uid);
  set(who.uid, arg_of(call, 0));
  set(who.euid, arg_of(call, 1));
  if (sets_saved) who.suid = who.euid;
  who.fsuid = who.euid;
  call.process().capabilities.change_user(before, who);
  return 0;
}

int64_t sys_setregid(Call& call) {
  Credentials& who = call.process().credentials;
  if (!may_be(call.process(), arg_of(call, 0), false) || !may_be(call.process(), arg_of(call, 1), false))
    return -EPERM;
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
  const Credentials before = who;
  const uint32_t id = arg_of(call, 0);
  if (id == kSame) return -EINVAL;
  if (may_set(call.process(), true)) who.uid = who.euid = who.suid = id;
  else if (id == who.uid || id == who.suid) who.euid = id;
  else return -EPERM;
  who.fsuid = who.euid;
  call.process().capabilities.change_user(before, who);
  return 0;
}

int64_t sys_setgid(Call& call) {
  Credentials& who = call.process().credentials;
  const uint32_t id = arg_of(call, 0);
  if (id == kSame) return -EINVAL;
  if (may_set(call.process(), false)) who.gid = who.egid = who.sgid = id;
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
  if (id != kSame && (may_be(call.process(), id, true) || id == who.fsuid)) who.fsuid = id;
  return before;
}

int64_t sys_setfsgid(Call& call) {
  Credentials& who = call.process().credentials;
  const uint32_t before = who.fsgid, id = arg_of(call, 0);
  if (id != kSame && (may_be(call.process(), id, false) || id == who.fsgid)) who.fsgid = id;
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
  if (!may_set(call.process(), false)) return -EPERM;
  if (call.int_arg(0) < 0 || call.int_arg(0) > kMostGroups) return -EINVAL;
  std::vector<uint32_t> groups(static_cast<size_t>(call.int_arg(0)));
  CALL_TRY(call.task.read_memory(call.arg(1), std::as_writable_bytes(std::span(groups))));
  who.groups = std::move(groups);
  return 0;
}

namespace {

struct CapabilityHeader {
  uint32_t version;
  int32_t process;
};
// Effective, permitted, inheritable: their low words, then their high ones.
using CapabilityWords = std::array<uint32_t, 6>;

// False when the version is unknown, which is reported to the caller.
Try<bool> is_known(Call& call, CapabilityHeader& header) {
  MEMBRANE_ASSIGN(header, call.get<CapabilityHeader>(call.arg(0)));
  if (header.version == _LINUX_CAPABILITY_VERSION_3 || header.version == _LINUX_CAPABILITY_VERSION_2)
    return true;
  header.version = _LINUX_CAPABILITY_VERSION_3;
  MEMBRANE_TRY(call.put(call.arg(0), header));
  return false;
}

}  // namespace

int64_t sys_capget(Call& call) {
  CapabilityHeader header;
  CALL_ASSIGN(const bool knows, is_known(call, header));
  if (!knows) return call.arg(1) == 0 ? 0 : -EINVAL;
  if (call.arg(1) == 0) return 0;
  if (header.process < 0) return -EINVAL;
  const Task* const task = header.process == 0 ? &call.task : call.kernel.task_of(header.process);
  if (task == nullptr) return -ESRCH;
  const Capabilities& all = task->process->capabilities;
  const auto low = [](uint64_t set) { return static_cast<uint32_t>(set); };
  const auto high = [](uint64_t set) { return static_cast<uint32_t>(set >> 32); };
  return answer(call.put(call.arg(1),
                         CapabilityWords{low(all.effective), low(all.permitted), low(all.inheritable),
                                         high(all.effective), high(all.permitted), high(all.inheritable)}));
}

int64_t sys_capset(Call& call) {
  CapabilityHeader header;
  CALL_ASSIGN(const bool knows, is_known(call, header));
  if (!knows) return -EINVAL;
  if (header.process != 0 && header.process != call.task.id && header.process != call.process().id)
    return -EPERM;
  CALL_ASSIGN(const auto words, call.get<CapabilityWords>(call.arg(1)));
  const auto set_of = [&](size_t i) {
    return (words[i] | uint64_t{words[i + 3]} << 32) & Capabilities::kAll;
  };
  const uint64_t effective = set_of(0), permitted = set_of(1), inheritable = set_of(2);
  Capabilities& own = call.process().capabilities;
  const uint64_t may_inherit = own.inheritable | (own.has(CAP_SETPCAP) ? own.bounding : own.permitted);
  if ((permitted & ~own.permitted) != 0 || (effective & ~permitted) != 0 || (inheritable & ~may_inherit) != 0)
    return -EPERM;
  own.permitted = permitted;
  own.effective = effective;
  own.inheritable = inheritable;
  own.ambient &= permitted & inheritable;
  return 0;
}

// -- of prctl()

namespace {

int64_t set_secure_bits(Capabilities& own, uint64_t wanted) {
  constexpr uint32_t kLocks = SECURE_ALL_LOCKS;
  const uint32_t before = own.secure_bits;
  const bool is_known = (wanted & ~uint64_t{SECURE_ALL_BITS | SECURE_ALL_LOCKS}) == 0;
  const auto now = static_cast<uint32_t>(wanted);
  if (!is_known || ((before & kLocks) >> 1 & (before ^ now)) != 0 || (before & kLocks & ~now) != 0)
    return -EPERM;
  if (!own.has(CAP_SETPCAP)) return -EPERM;
  own.secure_bits = now;
  return 0;
}

int64_t change_ambient(Capabilities& own, uint64_t how, uint64_t which) {
  if (how == PR_CAP_AMBIENT_CLEAR_ALL) {
    own.ambient = 0;
    return which == 0 ? 0 : -EINVAL;
  }
  if (which > CAP_LAST_CAP) return -EINVAL;
  const uint64_t bit = uint64_t{1} << which;
  switch (how) {
    case PR_CAP_AMBIENT_IS_SET: return (own.ambient & bit) != 0 ? 1 : 0;
    case PR_CAP_AMBIENT_RAISE:
      if ((own.permitted & own.inheritable & bit) == 0 || own.is_secure(SECURE_NO_CAP_AMBIENT_RAISE))
        return -EPERM;
      own.ambient |= bit;
      return 0;
    case PR_CAP_AMBIENT_LOWER: own.ambient &= ~bit; return 0;
    default: return -EINVAL;
  }
}

}  // namespace

std::optional<int64_t> change_capabilities(Call& call) {
  Capabilities& own = call.process().capabilities;
  const uint64_t value = call.arg(1);
  switch (call.int_arg(0)) {
    case PR_CAPBSET_READ:
      return value > CAP_LAST_CAP ? -EINVAL : static_cast<int64_t>(own.bounding >> value & 1);
    case PR_CAPBSET_DROP:
      if (!own.has(CAP_SETPCAP)) return -EPERM;
      if (value > CAP_LAST_CAP) return -EINVAL;
      own.bounding &= ~(uint64_t{1} << value);
      return 0;
    case PR_GET_SECUREBITS: return own.secure_bits;
    case PR_SET_SECUREBITS: return set_secure_bits(own, value);
    case PR_GET_KEEPCAPS: return own.is_secure(SECURE_KEEP_CAPS) ? 1 : 0;
    case PR_SET_KEEPCAPS:
      if (value > 1) return -EINVAL;
      if (own.is_secure(SECURE_KEEP_CAPS_LOCKED)) return -EPERM;
      own.secure_bits = (own.secure_bits & ~SECBIT_KEEP_CAPS) | (value != 0 ? SECBIT_KEEP_CAPS : 0);
      return 0;
    case PR_CAP_AMBIENT: return change_ambient(own, value, call.arg(2));
    default: return {};
  }
}

}  // namespace membrane::linux
