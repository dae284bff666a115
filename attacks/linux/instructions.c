// Privileged instructions, kernel entries other than `syscall`, other processor modes, odd places.
#define _GNU_SOURCE
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attack.h"

typedef void (*Code)(void);

// Runs the bytes in a process of its own; 0 when they returned.
static int run_code(const unsigned char* bytes, size_t length, void* at) {
  const pid_t process = fork();
  if (process == 0) {
    alarm(2);
    unsigned char* const code =
        mmap(at, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
             MAP_PRIVATE | MAP_ANONYMOUS | (at != NULL ? MAP_FIXED : MAP_32BIT), -1, 0);
    if (code == MAP_FAILED) _exit(3);
    memcpy(code, bytes, length);
    code[length] = 0xc3;
    ((Code)code)();
    _exit(0);
  }
  int status = 0;
  waitpid(process, &status, __WALL);
  return status;
}

#define BYTES(...) ((const unsigned char[]){__VA_ARGS__})
static const struct {
  const unsigned char* bytes;
  size_t length;
} kPrivileged[] = {
#define P(...) {BYTES(__VA_ARGS__), sizeof(BYTES(__VA_ARGS__))}
    P(0xf4),                                                  // hlt
    P(0xfa),                                                  // cli
    P(0xfb),                                                  // sti
    P(0x0f, 0x20, 0xc0),                                      // mov %cr0,%rax
    P(0x0f, 0x22, 0xd8),                                      // mov %rax,%cr3
    P(0x0f, 0x21, 0xf8),                                      // mov %dr7,%rax
    P(0x0f, 0x32),                                            // rdmsr
    P(0xb9, 0x80, 0x00, 0x00, 0xc0, 0x31, 0xc0, 0x0f, 0x30),  // wrmsr of EFER
    P(0x0f, 0x33),                                            // rdpmc
    P(0x0f, 0x01, 0xd0),                                      // xgetbv
    P(0x0f, 0x01, 0xd1),                                      // xsetbv
    P(0x0f, 0x01, 0x14, 0x24),                                // lgdt
    P(0x0f, 0x01, 0x1c, 0x24),                                // lidt
    P(0x0f, 0x00, 0xd0),                                      // lldt
    P(0x0f, 0x00, 0xd8),                                      // ltr
    P(0x0f, 0x01, 0xf8),                                      // swapgs
    P(0x0f, 0x01, 0x3c, 0x24),                                // invlpg
    P(0x0f, 0x08),                                            // invd
    P(0x0f, 0x09),                                            // wbinvd
    P(0x0f, 0x06),                                            // clts
    P(0xec),                                                  // in
    P(0xee),                                                  // out
    P(0x6c),                                                  // ins
    P(0x48, 0x0f, 0x07),                                      // sysretq
    P(0x0f, 0x35),                                            // sysexit
    P(0x0f, 0x01, 0xc1),                                      // vmcall
    P(0x0f, 0x01, 0xd9),                                      // vmmcall
    P(0x0f, 0x01, 0xc2),                                      // vmlaunch
    P(0x0f, 0xc7, 0x34, 0x24),                                // vmptrld
    P(0x0f, 0x01, 0xcf),                                      // encls
    P(0x0f, 0x01, 0xd7),                                      // enclu
    P(0x0f, 0xaa),                                            // rsm
    P(0x0f, 0x0b),                                            // ud2
    P(0xf1),                                                  // int1
    P(0xcc),                                                  // int3
    P(0xf0, 0x0f, 0xc7, 0xc8),                                // lock cmpxchg8b %eax, the F00F bug
    P(0x48, 0xcf),                                            // iretq
};

static int privileged(long index) {
  run_code(kPrivileged[index].bytes, kPrivileged[index].length, NULL);
  return kHeld;
}

// int N for 16 numbers. With the numbers of calls in eax these would be of the 32-bit table.
static int interrupts(long first) {
  for (long number = first; number < first + 16; ++number) {
    const unsigned char code[] = {0xb8, 0x14, 0, 0, 0, 0xcd, (unsigned char)number};  // mov $20,%eax; int
    run_code(code, sizeof code, NULL);
  }
  return kHeld;
}

// int $0x80 is another ABI: there 20 is getpid, 24 getuid, 2 fork. None may reach the host.
static int old_call(long number) {
  const pid_t process = fork();
  if (process == 0) {
    long result = number;
    __asm__ volatile("int $0x80"
                     : "+a"(result)
                     : "b"(0L), "c"(0L), "d"(0L)
                     : "memory", "r8", "r9", "r10", "r11");
    _exit(number == 20 && result > 0 && result != getpid() ? kEscaped : 0);
  }
  int status = 0;
  waitpid(process, &status, __WALL);
  return WIFEXITED(status) && WEXITSTATUS(status) == kEscaped ? escaped("int $0x80 reached another kernel")
                                                              : kHeld;
}

static int sysenter(long unused) {
  (void)unused;
  run_code(BYTES(0xb8, 0x14, 0, 0, 0, 0x89, 0xe5, 0x0f, 0x34), 9, NULL);
  return kHeld;
}

// Through a far return into the 32-bit code segment, and a call from there.
static int other_mode(long how) {
  unsigned char code[64];
  size_t length = 0;
  const unsigned char enter[] = {
      0x6a, (unsigned char)(how & 1 ? 0x33 : 0x23), 0xe8, 0, 0, 0, 0, 0x48, 0x83, 0x04, 0x24, 0x07, 0x48,
      0xcb};
  memcpy(code, enter, sizeof enter);
  length = sizeof enter;
  const unsigned char act[] = {0xb8, 0x14, 0, 0,    0,    0xcd, 0x80, 0xb8, 0x27,
                               0,    0,    0, 0x0f, 0x05, 0x0f, 0x34, 0xf4};
  memcpy(code + length, act + (how >> 1), sizeof act - (size_t)(how >> 1));
  length += sizeof act - (size_t)(how >> 1);
  run_code(code, length, NULL);
  return kHeld;
}

// The call is made by other bytes, from the last bytes of a page, from the last page.
static int odd_places(long which) {
  const unsigned char prefixed[] = {0xb8, 0x27, 0, 0, 0, 0x66, 0x66, 0x2e, 0x0f, 0x05};
  if (which == 0) run_code(prefixed, sizeof prefixed, NULL);
  if (which == 1) run_code(BYTES(0xb8, 0x27, 0, 0, 0, 0x0f, 0x05), 7, (void*)0x10000);
  if (which == 2) run_code(BYTES(0xb8, 0x27, 0, 0, 0, 0x0f, 0x05), 7, (void*)0x7ffdfffff000);
  if (which == 3 || which == 4) {
    const pid_t process = fork();
    if (process == 0) {
      alarm(2);
      unsigned char* const pages =
          mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      memcpy(pages + 4096 - 7, BYTES(0xb8, 0x27, 0, 0, 0, 0x0f, 0x05), 7);
      pages[4096] = 0xc3;
      if (which == 3) munmap(pages + 4096, 4096);
      ((Code)(pages + 4096 - 7))();
      _exit(0);
    }
    waitpid(process, NULL, __WALL);
  }
  return kHeld;
}

// Registers on which a kernel's handler could stumble.
static int odd_registers(long which) {
  const pid_t process = fork();
  if (process == 0) {
    alarm(2);
    switch (which) {
      case 0: __asm__ volatile("xor %%esp,%%esp; mov $39,%%eax; syscall; ud2" ::: "memory"); break;
      case 1:
        __asm__ volatile("mov $0x800000000000,%%rsp; mov $39,%%eax; syscall; push %%rax" ::: "memory");
        break;
      case 2: __asm__ volatile("mov $-8,%%rsp; mov $39,%%eax; syscall; push %%rax" ::: "memory"); break;
      case 3:
        __asm__ volatile("mov $0x7ffe20008000,%%rsp; mov $39,%%eax; syscall; push %%rax" ::: "memory");
        break;
      case 4:
        __asm__ volatile("pushfq; orq $0x100,(%%rsp); popfq; mov $39,%%eax; syscall; nop; ud2" ::
                             : "memory", "cc");
        break;
      case 5: __asm__ volatile("std; mov $39,%%eax; syscall; ud2" ::: "memory", "cc"); break;
      case 6:
        __asm__ volatile("pushfq; orq $0x40000,(%%rsp); popfq; mov $39,%%eax; syscall; ud2" ::
                             : "memory", "cc");
        break;
      case 7:
        __asm__ volatile("pushfq; orq $0x247fd5,(%%rsp); popfq; mov $39,%%eax; syscall; ud2" ::
                             : "memory", "cc");
        break;
      case 8:
        call(SYS_arch_prctl, 0x1002, 0x7ffe10000000);
        call(SYS_getpid);
        break;
      case 9:
        call(SYS_arch_prctl, 0x1001, 0xffff800000000000);
        call(SYS_getpid);
        break;
      case 10:
        __asm__ volatile("mov $0xffff800000000000,%%rax; wrgsbase %%rax; mov $39,%%eax; syscall; ud2" ::
                             : "rax", "memory");
        break;
      case 11:
        __asm__ volatile(
            "xor %%eax,%%eax; mov %%eax,%%ds; mov %%eax,%%es; mov %%eax,%%fs; mov %%eax,%%gs; mov $39,%%eax; "
            "syscall; ud2" ::
                : "rax", "memory");
        break;
      case 12:
        __asm__ volatile("mov $0x23,%%eax; mov %%eax,%%ss; mov $39,%%eax; syscall; ud2" ::: "rax", "memory");
        break;
      case 13:
        __asm__ volatile(
            "fldcw %0; fldz; fld1; fdivp; mov $39,%%eax; syscall; fwait; ud2" ::"m"((short[]){0}[0])
            : "rax", "memory");
        break;
      case 14: __asm__ volatile("ldmxcsr %0; ud2" ::"m"((int[]){-1}[0]) : "memory"); break;
      case 15:
        __asm__ volatile("xor %%ecx,%%ecx; mov $7,%%eax; xor %%edx,%%edx; xrstor (%%rsp); ud2" ::
                             : "rax", "rcx", "rdx", "memory");
        break;
      case 16: __asm__ volatile("jmp *%0" ::"r"(0x800000000000)); break;
      case 17: __asm__ volatile("jmp *%0" ::"r"(0xffffffff81000000)); break;
      case 18: __asm__ volatile("jmp *%0" ::"r"(0x7fffffffefff)); break;
      case 19: __asm__ volatile("mov (%0),%%eax" ::"r"(0xffff888000000000) : "rax"); break;
      case 20: __asm__ volatile("prefetcht0 (%0); clflush (%0)" ::"r"(0xffffffff81000000)); break;
      default: break;
    }
    _exit(0);
  }
  waitpid(process, NULL, __WALL);
  return kHeld;
}

// Code that changes itself, and code that is mapped twice.
static int changing_code(long is_twice) {
  const int file = (int)call(SYS_memfd_create, "code", 0);
  ftruncate(file, 4096);
  unsigned char* const write_at =
      mmap(NULL, 4096, PROT_READ | PROT_WRITE | (is_twice ? 0 : PROT_EXEC), MAP_SHARED, file, 0);
  unsigned char* const run_at =
      is_twice ? mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, file, 0) : write_at;
  for (int round = 0; round < 500; ++round) {
    const int value = round % 256;
    memcpy(write_at, BYTES(0xb8, 0, 0, 0, 0, 0xc3), 6);  // mov $value,%eax; ret
    write_at[1] = (unsigned char)value;
    if (((int (*)(void))run_at)() != value) return escaped("old code ran");
    memcpy(write_at, BYTES(0xb8, 0x27, 0, 0, 0, 0x0f, 0x05, 0xc3), 8);
    if (((int (*)(void))run_at)() != getpid()) return escaped("a call by changed code answers otherwise");
  }
  return kHeld;
}

static int never_yields(long how) {
  const pid_t process = fork();
  if (process == 0) {
    signal(SIGTERM, SIG_IGN);
    if (how == 0)
      for (;;) __asm__ volatile("");
    if (how == 1)
      for (;;) __asm__ volatile("pause");
    if (how == 2)
      for (;;) *(volatile int*)0x7ffe10000000 = 0;
    for (;;) call(SYS_getppid);
  }
  usleep(50000);
  if (kill(process, SIGKILL) != 0) return escaped("a spinner cannot be killed");
  waitpid(process, NULL, __WALL);
  return kHeld;
}

#define ROW(kind, act, n) {"instruction." kind "." #n, act, n}
const struct Attack kInstructions[] = {ROW("privileged", privileged, 0),   ROW("privileged", privileged, 1),
                                       ROW("privileged", privileged, 2),   ROW("privileged", privileged, 3),
                                       ROW("privileged", privileged, 4),   ROW("privileged", privileged, 5),
                                       ROW("privileged", privileged, 6),   ROW("privileged", privileged, 7),
                                       ROW("privileged", privileged, 8),   ROW("privileged", privileged, 9),
                                       ROW("privileged", privileged, 10),  ROW("privileged", privileged, 11),
                                       ROW("privileged", privileged, 12),  ROW("privileged", privileged, 13),
                                       ROW("privileged", privileged, 14),  ROW("privileged", privileged, 15),
                                       ROW("privileged", privileged, 16),  ROW("privileged", privileged, 17),
                                       ROW("privileged", privileged, 18),  ROW("privileged", privileged, 19),
                                       ROW("privileged", privileged, 20),  ROW("privileged", privileged, 21),
                                       ROW("privileged", privileged, 22),  ROW("privileged", privileged, 23),
                                       ROW("privileged", privileged, 24),  ROW("privileged", privileged, 25),
                                       ROW("privileged", privileged, 26),  ROW("privileged", privileged, 27),
                                       ROW("privileged", privileged, 28),  ROW("privileged", privileged, 29),
                                       ROW("privileged", privileged, 30),  ROW("privileged", privileged, 31),
                                       ROW("privileged", privileged, 32),  ROW("privileged", privileged, 33),
                                       ROW("privileged", privileged, 34),  ROW("privileged", privileged, 35),
                                       ROW("privileged", privileged, 36),  ROW("int", interrupts, 0),
                                       ROW("int", interrupts, 16),         ROW("int", interrupts, 32),
                                       ROW("int", interrupts, 48),         ROW("int", interrupts, 64),
                                       ROW("int", interrupts, 80),         ROW("int", interrupts, 96),
                                       ROW("int", interrupts, 112),        ROW("int", interrupts, 128),
                                       ROW("int", interrupts, 144),        ROW("int", interrupts, 160),
                                       ROW("int", interrupts, 176),        ROW("int", interrupts, 192),
                                       ROW("int", interrupts, 208),        ROW("int", interrupts, 224),
                                       ROW("int", interrupts, 240),        ROW("int80", old_call, 20),
                                       ROW("int80", old_call, 24),         ROW("int80", old_call, 2),
                                       ROW("int80", old_call, 5),          ROW("int80", old_call, 1),
                                       ROW("int80", old_call, 173),        ROW("sysenter", sysenter, 0),
                                       ROW("mode", other_mode, 0),         ROW("mode", other_mode, 1),
                                       ROW("mode", other_mode, 14),        ROW("mode", other_mode, 15),
                                       ROW("mode", other_mode, 28),        ROW("place", odd_places, 0),
                                       ROW("place", odd_places, 1),        ROW("place", odd_places, 2),
                                       ROW("place", odd_places, 3),        ROW("place", odd_places, 4),
                                       ROW("register", odd_registers, 0),  ROW("register", odd_registers, 1),
                                       ROW("register", odd_registers, 2),  ROW("register", odd_registers, 3),
                                       ROW("register", odd_registers, 4),  ROW("register", odd_registers, 5),
                                       ROW("register", odd_registers, 6),  ROW("register", odd_registers, 7),
                                       ROW("register", odd_registers, 8),  ROW("register", odd_registers, 9),
                                       ROW("register", odd_registers, 10), ROW("register", odd_registers, 11),
                                       ROW("register", odd_registers, 12), ROW("register", odd_registers, 13),
                                       ROW("register", odd_registers, 14), ROW("register", odd_registers, 15),
                                       ROW("register", odd_registers, 16), ROW("register", odd_registers, 17),
                                       ROW("register", odd_registers, 18), ROW("register", odd_registers, 19),
                                       ROW("register", odd_registers, 20), ROW("code", changing_code, 0),
                                       ROW("code", changing_code, 1),      ROW("spin", never_yields, 0),
                                       ROW("spin", never_yields, 1),       ROW("spin", never_yields, 2),
                                       ROW("spin", never_yields, 3),       {NULL, NULL, 0}};
