// The part of the platform that is in every guest's address space: it is read, written, unmapped, jumped
// into, and its one instruction is used.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attack.h"

enum {
  kStubAt = 0x7ffe00000000,
  kBellAt = kStubAt + 0x8000000,
  kControlsAt = kStubAt + 0x10000000,
  kStacksAt = kStubAt + 0x20000000
};

static int in_child(void (*act)(long), long argument) {
  const pid_t process = fork();
  if (process == 0) {
    alarm(2);
    act(argument);
    _exit(0);
  }
  int status = 0;
  // A thread that has lost its stub receives no signal but the last.
  for (int waited_ms = 0; waited_ms < 400; waited_ms += 5) {
    if (waitpid(process, &status, __WALL | WNOHANG) == process)
      return WIFEXITED(status) && WEXITSTATUS(status) == kEscaped ? kEscaped : kHeld;
    usleep(5000);
  }
  kill(process, SIGKILL);
  waitpid(process, NULL, __WALL);
  return kHeld;
}

// The kernel's calls must not touch the stub's addresses.
static int map_over(long which) {
  static const unsigned long kPlaces[] = {kStubAt,   kBellAt,        kControlsAt,
                                          kStacksAt, 0x7fffffffe000, 0x7ffe7fff0000};
  for (size_t i = 0; i < sizeof kPlaces / sizeof *kPlaces; ++i) {
    const unsigned long at = kPlaces[i];
    long done = -1;
    switch (which) {
      case 0:
        done =
            call(SYS_mmap, at, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        break;
      case 1: done = call(SYS_munmap, at, 4096); break;
      case 2: done = call(SYS_mprotect, at, 4096, PROT_READ | PROT_WRITE | PROT_EXEC); break;
      case 3: done = call(SYS_mremap, at, 4096, 8192, MREMAP_MAYMOVE, 0); break;
      case 4: {
        char* const own = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        done = call(SYS_mremap, own, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, at);
        break;
      }
      case 5: done = call(SYS_madvise, at, 4096, MADV_DONTNEED); break;
      case 6: done = call(SYS_munmap, 0, ~0ul & ~0xffful); break;
      case 7: done = call(SYS_munmap, 0x10000, 0x7fffffff0000); break;
      case 8: done = call(SYS_mprotect, 0x10000, 0x7ffffffe0000, PROT_NONE); break;
      case 9:
        done = call(SYS_mmap, at - 4096, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        break;
      case 10:
        done = call(SYS_mmap, at, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        break;
      case 11:
        done = call(SYS_brk, at);
        if (done != (long)at) done = -1;
        break;
      case 12: done = call(SYS_read, 0, at, 0) < 0 ? -1 : -1; break;
      default: break;
    }
    // Linux accepts munmap and madvise of unmapped addresses; they must have had no effect.
    if (done >= 0 && which != 1 && which != 5 && which != 6 && which != 7 && which != 8)
      return escaped("call %ld was allowed at %lx", which, at);
  }
  return getppid() >= 0 ? kHeld : kHeld;
}

static void jump(long at) {
  __asm__ volatile("xor %%eax,%%eax; xor %%edi,%%edi; xor %%esi,%%esi; jmp *%0" ::"r"(at)
                   : "rax", "rdi", "rsi", "memory");
}
static int jump_into(long from) {
  for (long offset = from; offset < from + 512; offset += 32) in_child(jump, (long)kStubAt + 0x1000 + offset);
  return kHeld;
}

// Writes arbitrary data over a page that both sides share, while a thread makes calls.
static void* make_calls(void* unused) {
  for (;;) call(SYS_getppid);
  return unused;
}
static void scribble(long seed) {
  pthread_t thread;
  pthread_create(&thread, NULL, make_calls, NULL);
  unsigned long random = (unsigned long)seed;
  volatile unsigned long* const words =
      (volatile unsigned long*)(seed % 3 == 0 ? kBellAt : kControlsAt + (seed % 2) * 4096);
  for (int round = 0; round < 200000; ++round) {
    random = random * 6364136223846793005ul + 1442695040888963407ul;
    words[(random >> 40) % 300] = random >> (random >> 58);
  }
}
static int scribble_on_pages(long seed) {
  for (int child = 0; child < 4; ++child) in_child(scribble, seed * 31 + child);
  return kHeld;
}
static void scribble_on_stacks(long slot) {
  memset((void*)(kStacksAt + (unsigned long)slot * 0x10000), 0x41, 0x10000);
  call(SYS_getppid);
}
static int stacks(long slot) { return in_child(scribble_on_stacks, slot); }

// The only instruction from which the host allows calls; `ret` follows it. Found by its bytes.
static unsigned long instruction(void) {
  static const unsigned char kBytes[] = {0x4c, 0x8b, 0x4c, 0x24, 0x08, 0x0f, 0x05, 0xc3};
  const unsigned char* const stub = (const unsigned char*)kStubAt;
  for (unsigned long at = 0x1000; at < 0x4000; ++at)
    if (memcmp(stub + at, kBytes, sizeof kBytes) == 0) return kStubAt + at + 5;
  return 0;
}
static long host_call(long number, long a, long b, long c, long d, long e, long f) {
  const unsigned long at = instruction();
  if (at == 0) _exit(0);
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  long result = number;
  __asm__ volatile("call *%[at]"
                   : "+a"(result)
                   : [at] "b"(at), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
}
// Makes every call of the host through it: nearly all kill the process, the rest must be of no use.
static void host_call_numbered(long number) {
  const long result = host_call(number, 0, 0, 0, 0, 0, 0);
  if (number == SYS_getpid || number == SYS_getuid || number == SYS_socket || number == SYS_open ||
      number == SYS_openat)
    if (result >= 0) _exit(escaped("the host answered call %ld with %ld", number, result));
}
static int host_calls(long first) {
  for (long number = first; number < first + 64; ++number)
    if (in_child(host_call_numbered, number) == kEscaped) return kEscaped;
  return kHeld;
}
static void host_call_of(long which) {
  char bytes[256] = {0};
  int ends[2];
  switch (which) {
    case 0: host_call(SYS_clone, SIGCHLD, 0, 0, 0, 0, 0); break;       // without CLONE_PARENT
    case 1: host_call(SYS_clone, CLONE_PARENT, 0, 0, 0, 0, 0); break;  // one more stub
    case 2: host_call(SYS_clone, CLONE_PARENT | CLONE_NEWUSER, 0, 0, 0, 0, 0); break;
    case 3: host_call(SYS_clone, 0x8000 | CLONE_VFORK | CLONE_VM, 0, 0, 0, 0, 0); break;
    case 4: host_call(SYS_clone, 0x250f00, (long)(bytes + 128), 0, 0, 0, 0); break;
    case 5: host_call(SYS_mmap, 0, 4096, 7, MAP_SHARED, 3, 0); break;
    case 6:
      for (int file = 0; file < 32; ++file) host_call(SYS_close, file, 0, 0, 0, 0, 0);
      call(SYS_getppid);
      break;
    case 7: host_call(SYS_dup2, 3, 100, 0, 0, 0, 0); break;
    case 8: host_call(SYS_munmap, kStubAt, 0x80000000, 0, 0, 0, 0); break;
    case 9:
      host_call(SYS_mprotect, kControlsAt, 0x1000, 0, 0, 0, 0);
      call(SYS_getppid);
      break;
    case 10:
      host_call(SYS_mmap, kControlsAt, 0x400000, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
      call(SYS_getppid);
      break;
    case 11: host_call(SYS_mmap, 0, 1l << 40, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0); break;
    case 12: host_call(SYS_futex, (long)(kBellAt), 1, 0x7fffffff, 0, 0, 0); break;
    case 13: host_call(SYS_futex, (long)(kBellAt), 0, *(volatile int*)kBellAt, 0, 0, 0); break;
    case 14: host_call(SYS_exit, 0, 0, 0, 0, 0, 0); break;
    case 15:
      host_call(SYS_recvmsg, 3, (long)&(struct msghdr){.msg_control = bytes, .msg_controllen = sizeof bytes},
                0, 0, 0, 0);
      break;
    case 16:
      host_call(SYS_mremap, kControlsAt, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, 0x500000000000, 0);
      call(SYS_getppid);
      break;
    case 17:
      host_call(SYS_madvise, kStacksAt, 0x10000, MADV_DONTNEED, 0, 0, 0);
      call(SYS_getppid);
      break;
    case 18:
      for (int i = 0; i < 50; ++i) host_call(SYS_clone, CLONE_PARENT, 0, 0, 0, 0, 0);
      break;
    case 19:
      socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
      host_call(SYS_dup2, ends[0], 3, 0, 0, 0, 0);
      call(SYS_getppid);
      break;
    case 20: host_call(SYS_rt_sigreturn, 0, 0, 0, 0, 0, 0); break;
    default: break;
  }
}
static int host_call_one(long which) { return in_child(host_call_of, which); }

#define ROW(kind, act, n) {"stub." kind "." #n, act, n}
const struct Attack kStub[] = {ROW("map", map_over, 0),
                               ROW("map", map_over, 1),
                               ROW("map", map_over, 2),
                               ROW("map", map_over, 3),
                               ROW("map", map_over, 4),
                               ROW("map", map_over, 5),
                               ROW("map", map_over, 6),
                               ROW("map", map_over, 7),
                               ROW("map", map_over, 8),
                               ROW("map", map_over, 9),
                               ROW("map", map_over, 10),
                               ROW("map", map_over, 11),
                               ROW("map", map_over, 12),
                               ROW("jump", jump_into, 0),
                               ROW("jump", jump_into, 512),
                               ROW("jump", jump_into, 1024),
                               ROW("jump", jump_into, 1536),
                               ROW("jump", jump_into, 2048),
                               ROW("jump", jump_into, 2560),
                               ROW("jump", jump_into, 3072),
                               ROW("jump", jump_into, 3584),
                               ROW("pages", scribble_on_pages, 1),
                               ROW("pages", scribble_on_pages, 2),
                               ROW("pages", scribble_on_pages, 3),
                               ROW("pages", scribble_on_pages, 4),
                               ROW("stack", stacks, 0),
                               ROW("stack", stacks, 1),
                               ROW("stack", stacks, 1023),
                               ROW("calls", host_calls, 0),
                               ROW("calls", host_calls, 64),
                               ROW("calls", host_calls, 128),
                               ROW("calls", host_calls, 192),
                               ROW("calls", host_calls, 256),
                               ROW("calls", host_calls, 320),
                               ROW("calls", host_calls, 384),
                               ROW("calls", host_calls, 448),
                               ROW("call", host_call_one, 0),
                               ROW("call", host_call_one, 1),
                               ROW("call", host_call_one, 2),
                               ROW("call", host_call_one, 3),
                               ROW("call", host_call_one, 4),
                               ROW("call", host_call_one, 5),
                               ROW("call", host_call_one, 6),
                               ROW("call", host_call_one, 7),
                               ROW("call", host_call_one, 8),
                               ROW("call", host_call_one, 9),
                               ROW("call", host_call_one, 10),
                               ROW("call", host_call_one, 11),
                               ROW("call", host_call_one, 12),
                               ROW("call", host_call_one, 13),
                               ROW("call", host_call_one, 14),
                               ROW("call", host_call_one, 15),
                               ROW("call", host_call_one, 16),
                               ROW("call", host_call_one, 17),
                               ROW("call", host_call_one, 18),
                               ROW("call", host_call_one, 19),
                               ROW("call", host_call_one, 20),
                               {NULL, NULL, 0}};
