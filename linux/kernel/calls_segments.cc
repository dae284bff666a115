// System V shared memory: shmget, shmat, shmdt, shmctl.
#include <sys/shm.h>

#include <set>

#include "linux/kernel/call.h"
#include "linux/kernel/kernel.h"
#include "linux/kernel/memory.h"
#include "linux/kernel/system_v.h"

namespace membrane::linux {
namespace {

using Segments = IpcTable<SharedSegment>;
using SegmentRef = std::shared_ptr<SharedSegment>;

constexpr uint64_t kMostBytes = UINT64_MAX - (1u << 24);  // SHMMAX, as it is reported
constexpr int kStatAny = 15;                              // SHM_STAT_ANY
constexpr uint32_t kRemoved = 01000;                      // SHM_DEST

// A segment that was removed is freed with its last mapping.
Segments& segments(Call& call) {
  Segments& all = system_v(call).segments;
  std::vector<int> gone;
  for (const auto& [place, entry] : all.entries())
    if (entry.object->memory == nullptr && entry.object->attached.expired()) gone.push_back(all.id_at(place));
  for (const int id : gone) all.remove(id);
  return all;
}

// Its start address in each memory that it is attached to.
using Attachments = std::set<std::pair<const Memory*, uint64_t>>;
Attachments attachments_of(const Call& call, const SharedSegment& segment) {
  Attachments found;
  const auto memory = segment.attached.lock();
  for (const auto& [id, process] : call.kernel.processes()) {
    if (process->memory == nullptr) continue;
    for (const auto& [start, area] : process->memory->areas())
      if (area.file == memory) found.emplace(process->memory.get(), start - area.offset);
  }
  return found;
}

shmid_ds shown(const Call& call, const SharedSegment& segment, int id) {
  shmid_ds status = {};
  status.shm_perm = reported_owner(segment.owner, id);
  if (segment.memory == nullptr) status.shm_perm.mode |= kRemoved;
  status.shm_segsz = segment.size;
  status.shm_atime = segment.attached_at;
  status.shm_dtime = segment.detached_at;
  status.shm_ctime = segment.changed_at;
  status.shm_cpid = segment.creator;
  status.shm_lpid = segment.last;
  status.shm_nattch = attachments_of(call, segment).size();
  return status;
}

int64_t change(Call& call, SharedSegment& segment) {
  CALL_ASSIGN(const auto wanted, call.get<shmid_ds>(call.arg(2)));
  CALL_TRY(may_control(call, segment.owner));
  take_owner(segment.owner, wanted.shm_perm);
  segment.changed_at = ipc_time(call);
  return 0;
}

int64_t remove(Call& call, SharedSegment& segment) {
  CALL_TRY(may_control(call, segment.owner));
  segment.memory.reset();
  segment.owner.key = IPC_PRIVATE;
  static_cast<void>(segments(call));
  return 0;
}

int64_t tell_limits(Call& call, const Segments& all) {
  shminfo info = {};
  info.shmmax = kMostBytes;
  info.shmmin = 1;
  info.shmmni = info.shmseg = Segments::kMost;
  info.shmall = kMostBytes;
  CALL_TRY(call.put(call.arg(2), info));
  return all.last_place();
}

int64_t tell_usage(Call& call, const Segments& all) {
  shm_info info = {};
  info.used_ids = static_cast<int>(all.entries().size());
  for (const auto& [place, entry] : all.entries()) {
    info.shm_tot += page_up(entry.object->size) / kPage;
    if (const auto memory = entry.object->attached.lock()) info.shm_rss += memory->resident_bytes() / kPage;
  }
  CALL_TRY(call.put(call.arg(2), info));
  return all.last_place();
}

struct Address {
  uint64_t at = 0;
  bool is_fixed = false;
};
Try<Address> address_of(uint64_t address, int flags) {
  if (address == 0) {
    if ((flags & SHM_REMAP) != 0) return err(EINVAL);
    return Address{};
  }
  if (address % kPage != 0 && (flags & SHM_RND) == 0) return err(EINVAL);
  if (page_down(address) == 0 && (flags & SHM_REMAP) != 0) return err(EINVAL);
  return Address{page_down(address), true};
}

}  // namespace

int64_t sys_shmget(Call& call) {
  const uint64_t size = call.arg(1);
  const auto is_large_enough = [size](const SharedSegment& found) -> Done {
    if (found.size < size) return err(EINVAL);
    return {};
  };
  const auto make = [&]() -> Try<SegmentRef> {
    if (size == 0 || size > kMostBytes) return err(EINVAL);
    if (size > call.kernel.options().limits.memory_bytes) return err(ENOMEM);
    auto made = std::make_shared<SharedSegment>();
    MEMBRANE_ASSIGN(made->memory, call.kernel.shared_memories.make(page_up(size), "/SYSV (deleted)"));
    made->attached = made->memory;
    made->size = size;
    made->creator = call.process().id;
    return made;
  };
  if ((call.int_arg(2) & SHM_HUGETLB) != 0) return -ENOMEM;  // there are no huge pages
  return answer(get_object<SharedSegment>(call, segments(call), call.int_arg(0), call.int_arg(2),
                                          is_large_enough, make));
}

int64_t sys_shmat(Call& call) {
  const int flags = call.int_arg(2);
  const SegmentRef segment = segments(call).find(call.int_arg(0));
  if (segment == nullptr) return -EINVAL;
  CALL_ASSIGN(const Address place, address_of(call.arg(1), flags));
  const bool is_read_only = (flags & SHM_RDONLY) != 0, runs = (flags & SHM_EXEC) != 0;
  CALL_TRY(may_use(call, segment->owner, 4u | (is_read_only ? 0u : 2u) | (runs ? 1u : 0u)));
  const std::shared_ptr<SharedMemory> memory = segment->attached.lock();
  const auto at = call.process().memory->map(
      {.address = place.at,
       .length = page_up(segment->size),
       .protection = PROT_READ | (is_read_only ? 0 : PROT_WRITE) | (runs ? PROT_EXEC : 0),
       .is_shared = true,
       .is_fixed = place.is_fixed,
       .replaces = (flags & SHM_REMAP) != 0,
       .file = memory,
       .backing = {.fd = memory->fd(), .offset = 0, .is_shared = true, .may_write = !is_read_only},
       .most_protection = is_read_only ? kAllProtections & ~PROT_WRITE : kAllProtections});
  if (!at) return at.error() == EEXIST ? -EINVAL : -at.error();
  segment->attached_at = ipc_time(call);
  segment->last = call.process().id;
  return static_cast<int64_t>(*at);
}

int64_t sys_shmdt(Call& call) {
  Memory& memory = *call.process().memory;
  const uint64_t address = call.arg(0);
  SegmentRef segment;
  for (const auto& [place, entry] : segments(call).entries())
    if (attachments_of(call, *entry.object).contains({&memory, address})) segment = entry.object;
  if (segment == nullptr) return -EINVAL;
  const auto file = segment->attached.lock();
  std::vector<std::pair<uint64_t, uint64_t>> pieces;
  for (const auto& [start, area] : memory.areas())
    if (area.file == file && start - area.offset == address) pieces.emplace_back(start, area.end - start);
  for (const auto& [start, length] : pieces) CALL_TRY(memory.unmap(start, length));
  segment->detached_at = ipc_time(call);
  segment->last = call.process().id;
  return 0;
}

int64_t sys_shmctl(Call& call) {
  const int command = call.int_arg(1);
  Segments& all = segments(call);
  if (command == IPC_INFO) return tell_limits(call, all);
  if (command == SHM_INFO) return tell_usage(call, all);
  const bool is_place = command == SHM_STAT || command == kStatAny;
  const int id = is_place ? all.id_at(call.int_arg(0)) : call.int_arg(0);
  const SegmentRef segment = all.find(id);
  if (segment == nullptr) return -EINVAL;
  switch (command) {
    case IPC_STAT:
    case SHM_STAT: CALL_TRY(may_use(call, segment->owner, 4)); [[fallthrough]];
    case kStatAny: CALL_TRY(call.put(call.arg(2), shown(call, *segment, id))); return is_place ? id : 0;
    case IPC_SET: return change(call, *segment);
    case IPC_RMID: return remove(call, *segment);
    case SHM_LOCK:
    case SHM_UNLOCK: return answer(may_control(call, segment->owner));  // nothing is swapped
    default: return -EINVAL;
  }
}

}  // namespace membrane::linux
