// System calls of memory.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "linux/kernel/call.h"
#include "linux/kernel/kernel.h"
#include "linux/kernel/memory.h"

namespace membrane::linux {

namespace {

constexpr uint64_t kMostHeap = 64ull << 30;

Done set_file(Call& call, Memory::Wish& wish, int protection) {
  MEMBRANE_ASSIGN(const FileRef file, call.process().descriptors->get(call.int_arg(4)));
  const int access = file->flags & O_ACCMODE;
  if ((file->flags & O_PATH) != 0) return err(EBADF);
  if (access == O_WRONLY) return err(EACCES);
  const bool is_shared_for_writing = access != O_RDONLY && file->node()->shares_writes();
  if (wish.is_shared && !is_shared_for_writing) {
    if ((protection & PROT_WRITE) != 0) return err(access == O_RDONLY ? EACCES : ENODEV);
    wish.most_protection &= ~PROT_WRITE;
  }
  wish.offset = call.arg(5);
  if (wish.offset % kPage != 0) return err(EINVAL);
  if (wish.offset + wish.length < wish.offset) return err(EOVERFLOW);
  MEMBRANE_ASSIGN(wish.backing, file->mapping(wish.offset, wish.length, wish.is_shared, protection));
  wish.file = file;
  return {};
}

Done set_shared(Call& call, Memory::Wish& wish) {
  MEMBRANE_ASSIGN(const auto memory, call.kernel.shared_memories.make(wish.length));
  wish.backing = {.fd = memory->fd(), .offset = 0, .is_shared = true};
  wish.file = memory;
  return {};
}

}  // namespace

int64_t sys_mmap(Call& call) {
  const int flags = call.int_arg(3), protection = call.int_arg(2) & kAllProtections;
  const int kind = flags & 0x0f;
  if (kind != MAP_PRIVATE && kind != MAP_SHARED && kind != MAP_SHARED_VALIDATE) return -EINVAL;
  if (call.arg(1) == 0) return -EINVAL;
  if ((flags & MAP_HUGETLB) != 0) return -ENOMEM;  // there are no huge pages
  if (call.arg(1) > (uint64_t{1} << 47)) return -ENOMEM;
  Memory::Wish wish = {.address = call.arg(0),
                       .length = page_up(call.arg(1)),
                       .protection = protection,
                       .is_shared = kind != MAP_PRIVATE,
                       .is_fixed = (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) != 0,
                       .replaces = (flags & MAP_FIXED_NOREPLACE) == 0,
                       .file = nullptr,
                       .backing = {}};
  if ((flags & MAP_ANONYMOUS) == 0) CALL_TRY(set_file(call, wish, protection));
  else if (wish.is_shared) CALL_TRY(set_shared(call, wish));
  return answer(call.process().memory->map(wish));
}

int64_t sys_munmap(Call& call) { return answer(call.process().memory->unmap(call.arg(0), call.arg(1))); }

int64_t sys_mprotect(Call& call) {
  if ((call.int_arg(2) & ~(kAllProtections | PROT_GROWSDOWN | PROT_GROWSUP)) != 0) return -EINVAL;
  return answer(call.process().memory->protect(call.arg(0), call.arg(1), call.int_arg(2) & kAllProtections));
}

// Behaves like a processor without protection keys.
int64_t sys_pkey_alloc(Call& call) { return call.arg(0) != 0 || call.arg(1) > 3 ? -EINVAL : -ENOSPC; }
int64_t sys_pkey_free(Call&) { return -EINVAL; }
int64_t sys_pkey_mprotect(Call& call) { return call.int_arg(3) == -1 ? sys_mprotect(call) : -EINVAL; }

int64_t sys_mremap(Call& call) {
  return answer(
      call.process().memory->remap(call.arg(0), call.arg(1), call.arg(2), call.int_arg(3), call.arg(4)));
}

int64_t sys_brk(Call& call) {
  return static_cast<int64_t>(call.process().memory->set_break(call.arg(0), kMostHeap));
}

// Advice that changes nothing that a program sees is accepted and ignored.
int64_t sys_madvise(Call& call) {
  Memory& memory = *call.process().memory;
  switch (call.int_arg(2)) {
    case MADV_DONTNEED:
    case MADV_FREE: return answer(memory.discard(call.arg(0), call.arg(1)));
    case MADV_NORMAL:
    case MADV_RANDOM:
    case MADV_SEQUENTIAL:
    case MADV_WILLNEED:
    case MADV_HUGEPAGE:
    case MADV_NOHUGEPAGE:
    case MADV_COLD:
    case MADV_PAGEOUT:
    case MADV_DODUMP:
    case MADV_DONTDUMP:
    case MADV_MERGEABLE:
    case MADV_UNMERGEABLE:
    case MADV_KEEPONFORK:
    case MADV_DOFORK: return memory.is_mapped(call.arg(0), page_up(call.arg(1))) ? 0 : -ENOMEM;
    default: return -EINVAL;
  }
}

int64_t sys_msync(Call& call) {
  if (call.arg(0) % kPage != 0 || (call.int_arg(2) & ~(MS_ASYNC | MS_SYNC | MS_INVALIDATE)) != 0)
    return -EINVAL;
  return call.process().memory->is_mapped(call.arg(0), page_up(call.arg(1))) ? 0 : -ENOMEM;
}

// Reports every mapped page as resident.
int64_t sys_mincore(Call& call) {
  const uint64_t length = page_up(call.arg(1));
  if (call.arg(0) % kPage != 0) return -EINVAL;
  if (!call.process().memory->is_mapped(call.arg(0), length)) return -ENOMEM;
  const std::vector<std::byte> pages(std::min<uint64_t>(length / kPage, 1u << 20), std::byte{1});
  if (pages.size() < length / kPage) return -EAGAIN;
  return answer(call.task.write_memory(call.arg(2), pages));
}

int64_t sys_mlock(Call& call) {
  return call.process().memory->is_mapped(page_down(call.arg(0)), page_up(call.arg(1))) ? 0 : -ENOMEM;
}
int64_t sys_mlock2(Call& call) { return sys_mlock(call); }
int64_t sys_munlock(Call& call) { return sys_mlock(call); }
int64_t sys_mlockall(Call&) { return 0; }
int64_t sys_munlockall(Call&) { return 0; }

}  // namespace membrane::linux
